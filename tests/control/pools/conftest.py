"""Worlds for the tests of the pools app."""

from __future__ import annotations

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.pools import reports
from controlplane.pools.showing import Turns
from tests.control.conftest import Clock, Outbox
from tests.control.pools.world import World


@pytest.fixture(autouse=True)
def fresh_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was shown yet: what a process remembers of that is of another test."""
    monkeypatch.setattr(reports, "_turns", Turns())


@pytest.fixture
def world(
    db: None, now: Clock, outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> World:
    """An empty fleet and a model in the catalogue; the test's own transaction stands for the database."""
    return World(now, outbox, django_capture_on_commit_callbacks)


@pytest.fixture
def committed_world(transactional_db: None, now: Clock, outbox: Outbox) -> World:
    """The same with real commits, for tests with threads."""
    return World(now, outbox, None)
