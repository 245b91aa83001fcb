"""Native engines, each with a model of its own, for all tests of this folder: a small one with random weights, and,
where the whole system is tested, the real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role
from inference.testing.faults import FaultPlan
from inference.testing.faulty_engine import FaultyEngine
from inference.testing.fleet import MODEL, Fleet, stub_spec
from inference.testing.tiny_model import write_tiny_model
from inference.worker.limits import WorkerLimits
from tests.inference.router.conftest import Bench, eventually
from tests.inference.router.scripted import SECRET

ROLES = (Role.PREFILL, Role.PREFILL, Role.DECODE, Role.DECODE)
SETTINGS = EngineSettings(kv_tokens=2048, prefill_chunk_tokens=32, threads=1)
#: Short leases and waits, so that what is lost with a worker is back within a second or two.
QUICK = WorkerLimits(lease_s=1.0, handoff_wait_s=2.0, handoff_s=2.0, kv_wait_s=1.0, stop_s=2.0)


@pytest.fixture(scope="package", params=["tiny", pytest.param("default", marks=pytest.mark.e2e)])
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[FaultyEngine]]:
    """Two of prefill workers, two of decode workers; nothing is held in them when all is over."""
    if request.param == "tiny":
        model = write_tiny_model(tmp_path_factory.mktemp("tiny"))
    else:
        model: Path = request.getfixturevalue("default_model_dir")
    made = [FaultyEngine(str(model), MODEL, role, SETTINGS) for role in ROLES]
    for engine in made:  # one after another: transformers loads one model at a time
        engine.start()
    yield made
    for engine in made:
        engine.close()


@pytest.fixture
async def fleet(bench: Bench, engines: list[FaultyEngine]) -> AsyncIterator[Fleet[FaultyEngine]]:
    """Workers around the engines, known to the router of `bench`, which the test has to start."""
    bench.model = MODEL
    fleet: Fleet[FaultyEngine] = Fleet(secret=SECRET)
    for number, (role, engine) in enumerate(zip(ROLES, engines, strict=True)):
        engine.faults, engine.crash = FaultPlan(), fleet.crash(engine)
        await fleet.enlist(stub_spec(role, number), engine, QUICK)
    yield fleet
    await fleet.settled(within_s=10.0)
    await bench.at_rest()
    await bench.restart_router(lambda: None)  # so that its connections end before the workers do
    for worker in fleet.workers:
        await worker.stop()
    assert [engine.load().kv_blocks_used for engine in engines] == [0, 0, 0, 0]


async def publish(bench: Bench, fleet: Fleet[FaultyEngine]) -> None:
    bench.publish_deployments(*fleet.table().deployments)
    await eventually(lambda: bench.router.tables.find(MODEL) is not None)
