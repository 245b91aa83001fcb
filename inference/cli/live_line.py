"""An operation as it goes: one line that changes on a terminal, one line for each step elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.text import Text

from inference.cli.plain import plain
from inference.contracts.states import OperationState, StepState
from inference.contracts.views.operations import OperationStepView, OperationView

_MARKS = {StepState.RUNNING: "…", StepState.DONE: "✓", StepState.FAILED: "✗", StepState.SKIPPED: "-"}


class LiveLine:
    """silent: says nothing. Steps that ended are printed once and stay; what runs is in the line."""

    def __init__(self, console: Console, *, silent: bool = False) -> None:
        self._console = console
        self._silent = silent
        self._status: Status | None = None
        self._told: set[tuple[int, StepState]] = set()
        self._last = ""

    @contextmanager
    def shown(self) -> Iterator[None]:
        if self._silent or not self._console.is_terminal:
            yield
            return
        with self._console.status("") as self._status:
            yield

    def show(self, operation: OperationView, remark: str = "") -> None:
        """remark: what people should know beside ("the control plane does not answer")."""
        if self._silent:
            return
        for index, step in enumerate(operation.steps):
            live = self._status is not None and step.state == StepState.RUNNING
            if not live and (index, step.state) not in self._told:
                self._told.add((index, step.state))
                self._console.print(plain(_step_line(step)), soft_wrap=True)
        line = plain(_line(operation, remark))
        if self._status is not None:
            self._status.update(Text(line))
        elif remark and line != self._last:
            self._console.print(line, soft_wrap=True)
        self._last = line


def _step_line(step: OperationStepView) -> str:
    return f"{_MARKS[step.state]} {step.text}{f' ({step.cause})' if step.cause else ''}"


def _line(operation: OperationView, remark: str) -> str:
    if operation.state == OperationState.QUEUED:
        doing = f"queued behind {', '.join(operation.queued_behind) or 'another operation'}"
    else:
        running = [step.text for step in operation.steps if step.state == StepState.RUNNING]
        doing = f"{operation.progress:.0%}{f' · {running[-1]}' if running else ''}"
    return f"{operation.title} · {doing}{f' · {remark}' if remark else ''}"
