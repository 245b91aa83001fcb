import asyncio

import pytest

from inference.contracts import names
from inference.contracts.sampling import Sampling
from inference.contracts.states import PrefillPath
from inference.testing.faults import Fault, FaultKind, FaultPoint
from inference.testing.fleet import stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.testing.worker_client import url
from inference.worker.limits import WorkerLimits


async def codes(client, http) -> tuple[int, int]:
    """Status of the liveness and the readiness probe."""
    found = []
    for path in (names.HEALTH_LIVE, names.HEALTH_READY):
        async with client.session.get(url(http, path)) as answer:
            found.append(answer.status)
    return found[0], found[1]


async def test_a_ready_worker_is_live_and_ready(fleet, client):
    assert await codes(client, fleet.decode[0].http) == (200, 200)


async def test_a_loading_worker_is_live_but_not_ready(fleet, client):
    fleet.decode[0].server.worker.state.ready = False
    assert await codes(client, fleet.decode[0].http) == (200, 503)


async def test_a_draining_worker_is_live_but_not_ready(fleet, client):
    await client.drain(fleet.decode[0].http)
    assert await codes(client, fleet.decode[0].http) == (200, 503)


@pytest.mark.parametrize("role", ["decode", "prefill"])
async def test_a_stuck_engine_loop_is_neither(client, role):
    """The event loop answers, so only the heartbeat tells."""
    settings = StubSettings(faults=(Fault(point=FaultPoint.BEFORE_PREFILL, kind=FaultKind.HANG),))
    async with stub_fleet(settings=settings, limits=WorkerLimits(heartbeat_s=0.1)) as fleet:
        decode, prefill = fleet.decode[0], fleet.prefill[0]
        ticket = await client.reserve(decode.http, "hello", Sampling(max_tokens=3))
        stuck = decode if role == "decode" else prefill
        call = (
            client.generate(decode.http, ticket, PrefillPath.LOCAL)
            if role == "decode"
            else client.prefill(prefill.http, ticket, Sampling(max_tokens=3))
        )
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await anext(call)
        await call.aclose()
        assert await codes(client, stuck.http) == (503, 503)
        status = await client.status(stuck.http)
        assert (status.ready, status.healthy) == (True, False)
        await fleet.settled()
