"""Workflows of the tests' own, so that no test of this app depends on what pools or nodes do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.operations import workflows
from controlplane.operations.models import Operation
from controlplane.operations.services import operation_finish
from controlplane.operations.workflows import Workflow, register
from inference.contracts.states import OperationKind, OperationState


class Wanted:
    """What the workflows of these tests write: the titles of the operations that began, in order.

    refuse: begin and cancel raise it. break_on: title of an operation whose beginning is a programming error.
    done_at_once: what begins has nothing left to do.
    """

    def __init__(self) -> None:
        self.began: list[str] = []
        self.cancelled: list[str] = []
        self.refuse: Exception | None = None
        self.break_on: str | None = None
        self.done_at_once = False

    def begin(self, operation: Operation) -> None:
        if self.refuse is not None:
            raise self.refuse
        if operation.title == self.break_on:
            raise RuntimeError("a bug")
        self.began.append(operation.title)
        if self.done_at_once:
            operation_finish(operation, OperationState.SUCCEEDED, "Done.")

    def cancel(self, operation: Operation) -> str:
        if self.refuse is not None:
            raise self.refuse
        self.cancelled.append(operation.title)
        return "1 replica is wanted again."


@pytest.fixture(autouse=True)
def wanted(monkeypatch: pytest.MonkeyPatch) -> Wanted:
    """RESIZE gives way to a later RESIZE, and can be cancelled and retried; of ROLL_OUT and DELETE, nothing can."""
    world = Wanted()
    monkeypatch.setattr(workflows, "_registered", {})
    register(
        Workflow(
            OperationKind.RESIZE,
            begin=world.begin,
            cancel=world.cancel,
            retryable=True,
            supersedes=frozenset({OperationKind.RESIZE}),
        )
    )
    register(Workflow(OperationKind.ROLL_OUT, begin=world.begin))
    register(Workflow(OperationKind.DELETE, begin=world.begin))
    return world


@pytest.fixture
def committing(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> Callable[[], AbstractContextManager[object]]:
    """`with committing():` what happens inside is committed, as far as its hooks can tell."""
    return partial(django_capture_on_commit_callbacks, execute=True)
