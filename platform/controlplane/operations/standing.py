"""How a step of an operation stands, as whoever looks at it says. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from inference.contracts.states import StepState


@dataclass(frozen=True, slots=True)
class Standing:
    """key: names the step within its operation. cause: why it is done, or why it failed."""

    key: str
    text: str
    state: StepState = StepState.RUNNING
    cause: str = ""
