"""The agent's command with a stub for the native engine: `python -m tests.inference.agent.agent_process`.

While a file `hold` lies in its folder, the task that takes specs does not return: a connected, idle consumer. While a
file `break` lies there, the next message breaks the consumer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inference.agent.main import main
from inference.agent.workers import supervisor
from inference.broker.consumer import CarefulConsumer
from inference.contracts.specs import NodeSpec
from tests.inference.agent.node_under_test import STUB_ENGINES

_submit = supervisor.Supervisor.submit
_create_task_handler = CarefulConsumer.create_task_handler


def _held_submit(self: supervisor.Supervisor, spec: NodeSpec) -> bool:
    while (self._state.root / "hold").exists():
        time.sleep(0.1)
    return _submit(self, spec)


def _breaking_handler(self: CarefulConsumer) -> Callable[[Any], None]:
    take = _create_task_handler(self)

    def take_or_break(message: Any) -> None:
        if (Path(sys.argv[-1]) / "break").exists():
            raise ArithmeticError("planted")
        take(message)

    return take_or_break


if __name__ == "__main__":
    supervisor.Supervisor.submit = _held_submit  # type: ignore[method-assign]
    CarefulConsumer.create_task_handler = _breaking_handler  # type: ignore[method-assign, assignment]
    sys.exit(main(engines=STUB_ENGINES))
