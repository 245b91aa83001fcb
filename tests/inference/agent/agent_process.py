"""The agent's command with a stub for the native engine: `python -m tests.inference.agent.agent_process`.

While a file `hold` lies in its folder, the task that takes specs does not return: a connected, idle consumer.
"""

from __future__ import annotations

import sys
import time

from inference.agent import supervisor
from inference.agent.main import main
from inference.contracts.specs import NodeSpec
from tests.inference.agent.node_under_test import STUB_ENGINES

_submit = supervisor.Supervisor.submit


def _held_submit(self: supervisor.Supervisor, spec: NodeSpec) -> bool:
    while (self._state.root / "hold").exists():
        time.sleep(0.1)
    return _submit(self, spec)


if __name__ == "__main__":
    supervisor.Supervisor.submit = _held_submit  # type: ignore[method-assign]
    sys.exit(main(engines=STUB_ENGINES))
