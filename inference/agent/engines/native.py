"""Launches Tandem's own engine: `python -m inference.worker`."""

from __future__ import annotations

import sys

from inference.agent.engines.command import Command, Engine, LaunchRequest
from inference.contracts import engines


def native_command(request: LaunchRequest) -> Command:
    """Command of a native worker, which confines itself to the devices of its spec."""
    return Command(
        argv=(
            *(sys.executable, "-m", "inference.worker"),
            *("--spec", str(request.spec_file)),
            *("--announce", str(request.announce_file)),
        ),
        env={
            "TANDEM_CLUSTER_SECRET_FILE": str(request.secret_file),
            "TANDEM_WORKER_HOST": request.hosts.bind,
            "TANDEM_WORKER_ADVERTISED_HOST": request.hosts.advertised,
        },
    )


NATIVE = Engine(command=native_command, capabilities=engines.ENGINES[engines.NATIVE])
