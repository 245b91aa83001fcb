from __future__ import annotations

import pytest
from django.apps import apps

from controlplane.operations import workflows
from controlplane.operations.workflows import Workflow, register, workflow_find, workflow_of
from inference.contracts.states import OperationKind


def test_a_kind_belongs_to_one_app() -> None:
    with pytest.raises(ValueError, match="resize has a workflow already"):
        register(Workflow(OperationKind.RESIZE, begin=lambda operation: None))


def test_an_unknown_kind_is_answered_with_the_known_ones() -> None:
    with pytest.raises(LookupError, match="flip has no workflow; registered are delete, resize, roll_out"):
        workflow_of(OperationKind.FLIP)
    assert workflow_find(OperationKind.FLIP) is None


def test_the_pools_app_registers_its_kinds_when_django_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflows, "_registered", {})
    apps.get_app_config("pools").ready()

    assert workflow_of(OperationKind.RESIZE).kind == OperationKind.RESIZE
