"""What the code knows of each kind of operation. The app that owns a kind registers it in its `AppConfig.ready()`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from controlplane.operations.models import Operation
from inference.contracts.states import OperationKind, OperationState


@dataclass(frozen=True, slots=True)
class Target:
    """Something that an operation works on. kind: "deployment", "pool", "node", "worker" or "model"."""

    kind: str
    id: str
    name: str


class OnConflict(StrEnum):
    """What a caller wants when another operation has one of its targets.

    REFUSE: be told so. QUEUE: wait until that operation has ended.
    """

    REFUSE = "refuse"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Workflow:
    """How operations of one kind begin, go on and are taken back. Every callable runs inside a transaction.

    begin: writes what is wanted, when the operation starts to run: at once, or when it leaves the queue. A
        `ControlError` refuses the request (at once) or ends the operation as failed with that sentence (queued).
    lock: takes the row locks that the owner's services take before they start an operation. Called before the
        operation's own row is locked, so that two ways to the same rows never wait for each other. Rows that are gone
        are no reason to refuse here.
    cancel: puts back what was wanted before, and returns how that stands in one sentence. None: can't be cancelled
        once it runs.
    retryable: a failed or cancelled one may be begun again with the same request.
    supersedes: kinds whose open operations on the same set of targets give way to this one instead of conflicting.
    advance: looks at a running one, from the sweep. It must be able to run any number of times.
    expires: False where the owner keeps deadlines of its own; else OPERATION_DEADLINE_S ends it.
    """

    kind: OperationKind
    begin: Callable[[Operation], None]
    lock: Callable[[Operation], None] | None = None
    cancel: Callable[[Operation], str] | None = None
    retryable: bool = False
    supersedes: frozenset[OperationKind] = frozenset()
    advance: Callable[[Operation], None] | None = None
    expires: bool = True


_registered: dict[OperationKind, Workflow] = {}

#: Ends after which what was asked for is not there.
_AGAIN = frozenset({OperationState.FAILED, OperationState.CANCELLED})


def register(workflow: Workflow) -> None:
    """
    Raises:
        ValueError: this kind has a workflow already.
    """
    if workflow.kind in _registered:
        raise ValueError(f"{workflow.kind} has a workflow already; a kind belongs to one app")
    _registered[workflow.kind] = workflow


def workflow_of(kind: OperationKind) -> Workflow:
    """
    Raises:
        LookupError: no app registered this kind; names those that are.
    """
    found = workflow_find(kind)
    if found is None:
        raise LookupError(f"{kind} has no workflow; registered are {', '.join(sorted(_registered)) or 'none'}")
    return found


def workflow_find(kind: OperationKind) -> Workflow | None:
    """None where no app registered this kind: its rows are history, to be read only."""
    return _registered.get(kind)


def is_cancellable(operation: Operation) -> bool:
    """Whether a person may take it back now. What waits in the queue has changed nothing yet, so it always can."""
    if operation.state == OperationState.QUEUED:
        return True
    workflow = workflow_find(OperationKind(operation.kind))
    return operation.state == OperationState.RUNNING and workflow is not None and workflow.cancel is not None


def is_retryable(operation: Operation) -> bool:
    """Whether it may be begun again now."""
    workflow = workflow_find(OperationKind(operation.kind))
    return operation.state in _AGAIN and workflow is not None and workflow.retryable
