from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from tests.control.catalog.nodes import Nodes
from tests.control.conftest import Clock, Outbox


@pytest.fixture
def nodes(
    db: None,
    now: Clock,
    outbox: Outbox,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> Nodes:
    """A fleet whose nodes apply what they are sent, and report of weights what a test says."""
    capture: Callable[..., AbstractContextManager[object]] = django_capture_on_commit_callbacks
    return Nodes(now, outbox, capture)
