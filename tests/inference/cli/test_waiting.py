"""An operation is followed to its end, through outages, until a deadline, and its steps are told once each."""

from __future__ import annotations

import io
from typing import Any

import httpx2
import pytest
from rich.console import Console

from inference.cli.errors import ExitCode, Refused, TimedOut
from inference.cli.live_line import LiveLine
from inference.cli.waiting import follow
from inference.contracts.states import OperationState, StepState
from inference.contracts.views.operations import OperationStepView, OperationView
from tests.inference.cli.answers import Script, Step, json, operation, problem

STEP = OperationStepView(at="2026-03-01T12:00:00Z", text="decode-3 starts", state=StepState.RUNNING)
DONE = OperationStepView(at="2026-03-01T12:00:00Z", text="decode-3 starts", cause="it was wanted")
ENDED = operation(OperationState.SUCCEEDED, outcome="3 of 3 ready.", progress=1.0, steps=(DONE,))


class Watch:
    """A clock that moves as it is slept by, and what is said meanwhile."""

    def __init__(self, *steps: Step) -> None:
        self.control = Script(steps)
        self.time = 0.0
        self.said = io.StringIO()

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def follow(self, *, timeout_s: float = 60.0, terminal: bool = False, silent: bool = False) -> Any:
        console = Console(file=self.said, force_terminal=terminal, width=200, markup=False, highlight=False)
        line = LiveLine(console, silent=silent)
        return follow(
            self.control.client(),
            operation(),
            timeout_s=timeout_s,
            line=line,
            sleep=self.sleep,
            now=lambda: self.time,
        )


def test_it_ends_with_the_operation() -> None:
    watch = Watch(json(operation(steps=(STEP,))), json(operation(steps=(STEP,))), json(ENDED))
    assert watch.follow().view == ENDED
    assert watch.time == 2.0


def test_each_step_is_told_once_as_it_begins_and_as_it_ends() -> None:
    watch = Watch(json(operation(steps=(STEP,))), json(operation(steps=(STEP,))), json(ENDED))
    watch.follow()
    assert watch.said.getvalue().splitlines() == ["… decode-3 starts", "✓ decode-3 starts (it was wanted)"]


def test_on_a_terminal_what_runs_is_in_the_line_and_what_ended_stays() -> None:
    watch = Watch(json(operation(steps=(STEP,))), json(ENDED))
    watch.follow(terminal=True)
    assert "Resize decode of chat · 50% · decode-3 starts" in watch.said.getvalue()
    assert watch.said.getvalue().count("✓ decode-3 starts") == 1


def test_quiet_says_nothing() -> None:
    watch = Watch(json(operation(steps=(STEP,))), json(ENDED))
    watch.follow(silent=True)
    assert watch.said.getvalue() == ""


def test_an_outage_is_waited_through_and_told() -> None:
    away = [httpx2.ConnectError("refused"), problem(503, "database_away", "The database is away.")]
    watch = Watch(*away, json(ENDED))
    assert watch.follow().view == ENDED
    assert "can't be reached" in watch.said.getvalue()
    assert "The database is away" in watch.said.getvalue()


def test_after_the_deadline_it_is_said_that_it_goes_on() -> None:
    watch = Watch(json(operation()))
    with pytest.raises(TimedOut, match="Follow it: tandem operations watch 0f8f") as late:
        watch.follow(timeout_s=5.5)
    assert (watch.time, late.value.exit_code) == (5.5, ExitCode.TIMED_OUT)


def test_an_outage_without_end_ends_at_the_deadline_too() -> None:
    watch = Watch(httpx2.ConnectError("refused"))
    with pytest.raises(TimedOut):
        watch.follow(timeout_s=3.0)


def test_who_may_not_look_any_more_is_told_so_at_once() -> None:
    watch = Watch(json(operation()), problem(401, "invalid_token", "This token is revoked."))
    with pytest.raises(Refused, match="revoked"):
        watch.follow()


def test_a_queued_one_says_behind_which() -> None:
    queued: OperationView = operation(OperationState.QUEUED, queued_behind=("7c9e",))
    watch = Watch(json(queued), json(ENDED))
    watch.follow(terminal=True)
    assert "queued behind 7c9e" in watch.said.getvalue()


def test_what_looks_like_markup_is_text() -> None:
    watch = Watch(json(operation(title="Resize [/] of [bold]", steps=(STEP,))), json(ENDED))
    watch.follow(terminal=True)
    assert "Resize [/] of [bold]" in watch.said.getvalue()
