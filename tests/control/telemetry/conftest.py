"""A Redis-compatible server of the test's own, which the control plane's clients use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from controlplane.core.redis import sync_client
from inference.testing.valkey import ValkeyServer


@pytest.fixture
def valkey(tmp_path: Path, settings: Settings) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path / "valkey") as server:
        settings.REDIS_URL = server.url
        sync_client.cache_clear()
        yield server
        sync_client().close()
        sync_client.cache_clear()
