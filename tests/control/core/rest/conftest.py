"""The shelf: an endpoint of the tests' own on the base of all endpoints."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from tests.control.core.rest.shelf import Calls


@pytest.fixture
def shelf(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> type[Calls]:
    settings.ROOT_URLCONF = "tests.control.core.rest.shelf"
    monkeypatch.setattr(Calls, "count", 0)
    monkeypatch.setattr(Calls, "meanwhile", lambda: None)
    return Calls
