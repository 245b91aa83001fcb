from collections.abc import AsyncIterator

import pytest

from inference.testing.fleet import SECRET, StubFleet, stub_fleet
from inference.testing.worker_client import WorkerClient


@pytest.fixture
async def client() -> AsyncIterator[WorkerClient]:
    async with WorkerClient(SECRET) as caller:
        yield caller


@pytest.fixture
async def fleet() -> AsyncIterator[StubFleet]:
    """One prefill and one decode worker; everything they held must be free again when a test is over."""
    async with stub_fleet() as workers:
        yield workers
        await workers.settled()
