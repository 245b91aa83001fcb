"""What operators asked for: how far it is, and what it will do."""

from __future__ import annotations

import msgspec

from inference.contracts.states import OperationKind, OperationState, StepState


class OperationStepView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that an operation did or does. cause: why it was done, or why it failed."""

    at: str
    text: str
    state: StepState = StepState.DONE
    finished_at: str | None = None
    cause: str = ""


class PreviewMoment(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of a preview, in order. text: what happens then. devices: how many are in use by what is changed.
    prefill, decode, unified: workers that take requests at that moment."""

    text: str
    devices: int
    prefill: int
    decode: int
    unified: int = 0


class OperationPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation will do, worked out from the fleet as it is when asked.

    start, stop, flip: in words, one worker each ("decode-3 on node-2 gpu-1"). moments: the course of it.
    devices_max: most devices used at any moment. budget: devices it may use. warnings: what people should know first
    ("nothing serves between these two moments"). refusals: why part of it can't be done now.
    """

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    flip: tuple[str, ...] = ()
    moments: tuple[PreviewMoment, ...] = ()
    devices_max: int = 0
    budget: int = 0
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


class OperationTargetView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an operation works on. kind: "deployment", "pool", "node", "worker" or "model". href: where the
    console shows it."""

    kind: str
    id: str
    name: str
    href: str = ""


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """progress: 0..1. before, after: what changes, in words ("2 replicas"). started_at: None while it is queued, and
    for ever when it ended in the queue. target: name of the first of `targets`. queued_behind: ids of operations that
    it waits for. retry_of: the operation that this one tries again. cancellable, retryable: what can be done now."""

    id: str
    kind: OperationKind
    state: OperationState
    target: str
    title: str
    requested_by: str
    reason: str
    before: str
    after: str
    progress: float
    outcome: str
    started_at: str | None
    finished_at: str | None
    steps: tuple[OperationStepView, ...]
    targets: tuple[OperationTargetView, ...] = ()
    preview: OperationPreview | None = None
    requested_at: str = ""
    queued_behind: tuple[str, ...] = ()
    retry_of: str | None = None
    cancellable: bool = False
    retryable: bool = False
