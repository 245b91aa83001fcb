"""The node agent's command with stubs for the native engine: `python -m inference.testing.stub_agent run ...`.

Everything but the engine is the product's own: processes, probes, messages, files. A model's path is that of a file
with `StubSettings`, or "stub".
"""

from __future__ import annotations

import sys
from dataclasses import replace

from inference.agent.engines.command import Command, Engine, EngineRegistry, LaunchRequest
from inference.agent.engines.native import NATIVE, native_command
from inference.agent.main import main
from inference.testing.worker_process import STUB_MODULE


def stub_command(request: LaunchRequest) -> Command:
    """The native engine's command with another module."""
    native = native_command(request)
    return replace(native, argv=tuple(STUB_MODULE if word == "inference.worker" else word for word in native.argv))


STUB_ENGINES = EngineRegistry({"native": Engine(command=stub_command, capabilities=NATIVE.capabilities)})

if __name__ == "__main__":
    sys.exit(main(engines=STUB_ENGINES))
