"""Problems that people hit on other systems, as they would meet the router."""

from __future__ import annotations

import asyncio
import json
import time

from inference.contracts.routing import DeploymentRoute
from inference.contracts.states import Role
from inference.testing.fleet import MODEL, stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.worker.limits import WorkerLimits
from tests.inference.router.conftest import LONG, PATIENT, Bench, eventually
from tests.inference.router.scripted import SECRET, ScriptedWorker
from tests.inference.router.test_faults import assert_whole


async def test_requests_that_together_need_more_kv_than_there_is_all_finish(bench: Bench) -> None:
    """F19: 20 blocks, six requests of 8 at once; and one that could never fit is refused at once."""
    bench.model, bench.deadlines = MODEL, PATIENT
    settings = StubSettings(kv_blocks=20, block_size=16, decode_s_per_token=0.001)
    limits = WorkerLimits(kv_wait_s=0.2)
    async with stub_fleet(1, 1, settings=settings, limits=limits, secret=SECRET) as fleet:
        await bench.start(queue_s=30.0)
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(lambda: bench.router.tables.find(MODEL) is not None)
        prompts = [f"{number} " + "x" * 70 for number in range(6)]
        answers = await asyncio.gather(*(bench.chat(prompt, max_tokens=30) for prompt in prompts))
        assert [status for status, _ in answers] == [200] * 6
        status, refused = await bench.chat("y" * 400, max_tokens=30)
        assert (status, refused["error"]["code"]) == (400, "context_length_exceeded")
        await fleet.settled()
        await bench.at_rest()
        await bench.restart_router(lambda: None)


async def test_nothing_that_a_client_sends_makes_anybody_call_an_address_of_its_choice(bench: Bench) -> None:
    """F33: fields and headers by which other systems are told where to fetch from."""
    bench.pair()
    await bench.start()
    called: list[object] = []
    listener = await asyncio.start_server(lambda *connection: called.append(connection), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    address = f"127.0.0.1:{port}"
    headers = {
        "x-prefiller-host-port": address,
        "x-prefiller-url": f"http://{address}",
        "x-data-parallel-host-port": address,
        "x-gateway-destination-endpoint": address,
        "x-forwarded-host": address,
    }
    fields = {
        "kv_transfer_params": {"do_remote_prefill": True, "remote_host": "127.0.0.1", "remote_port": port},
        "bootstrap_host": "169.254.169.254",
        "bootstrap_port": port,
        "bootstrap_room": 7,
        "disagg_prefill_resp": {"remote_host": "127.0.0.1", "remote_port": port},
        "target": {"host": "127.0.0.1", "port": port},
        "transfer": {"host": "127.0.0.1", "port": port},
        "ticket_id": "mine",
        "answered": 3,
    }
    body = {"model": bench.model, "messages": [{"role": "user", "content": LONG}], **fields}
    async with bench.http.post("/v1/chat/completions", json=body, headers=headers) as answer:
        told = await answer.text()
        assert answer.status == 200
        assert not any(name.lower().startswith("x-prefill") for name in answer.headers)
    assert_whole(json.loads(told))
    assert not any(field in told for field in fields)
    listener.close()
    await listener.wait_closed()
    assert not called
    prefills = [request for worker in bench.workers for request in worker.prefills]
    assert {(request.target.port, request.sampling.answered) for request in prefills} == {(9, 0)}


async def test_a_known_model_without_workers_is_told_from_an_unknown_one(bench: Bench) -> None:
    """F31, once more with the queue: nothing waits for workers that are not there."""
    bench.worker(Role.PREFILL)
    await bench.start(queue_s=30.0)
    began = time.monotonic()
    assert (await bench.chat(LONG))[0] == 503
    bench.model = "nobody"
    assert (await bench.chat(LONG))[0] == 404
    assert time.monotonic() - began < 20
    assert isinstance(bench.router.tables.deployments[0], DeploymentRoute)


async def test_a_model_is_listed_when_its_first_request_would_succeed(bench: Bench) -> None:
    """F31: whatever comes up first, and however little of it."""
    prefill, decode = bench.pair()
    await bench.start()

    async def listed_with(*workers: ScriptedWorker) -> list[str]:
        bench.publish(list(workers))
        served = tuple(worker.route for worker in workers)
        await eventually(lambda: bench.router.tables.deployments[0].workers == served)
        async with bench.http.get("/v1/models") as answer:
            return [entry["id"] for entry in (await answer.json())["data"]]

    assert await listed_with() == []
    assert (await bench.chat(LONG))[0] == 503, "scaled to zero is no reason for 404"
    assert await listed_with(prefill) == await listed_with(decode) == []
    assert (await bench.chat(LONG))[0] == 503
    assert await listed_with(prefill, decode) == [bench.model]
    status, answer = await bench.chat(LONG)
    assert status == 200
    assert_whole(answer)


async def test_a_worker_that_is_listed_before_it_is_ready_costs_nobody_an_answer(bench: Bench) -> None:
    """F18: half-ready says so, which is no fault; the request goes to another, or waits for it."""
    bench.model, bench.deadlines = MODEL, PATIENT
    async with stub_fleet(1, 2, secret=SECRET) as fleet:
        late = fleet.decode[0].server.worker.state
        late.ready = False
        await bench.start(queue_s=20.0)
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(lambda: bench.router.tables.find(MODEL) is not None)
        for number in range(6):
            assert (await bench.chat(f"{number}", max_tokens=2))[0] == 200
        fleet.decode[1].server.worker.state.draining = True
        waiting = asyncio.create_task(bench.chat("waits", max_tokens=2))
        await eventually(lambda: len(bench.router.rooms.of(MODEL)) == 1)
        late.ready = True
        assert (await waiting)[0] == 200
        assert "worker_faults_total{" not in await bench.metrics()
        await bench.restart_router(lambda: None)


async def test_where_the_limits_of_a_pair_differ_the_smaller_one_counts(bench: Bench) -> None:
    """F30: 400 with both numbers, nothing is held, and nobody is blamed."""
    bench.model, bench.deadlines = MODEL, PATIENT
    async with stub_fleet(0, 1, settings=StubSettings(context_length=2048), secret=SECRET) as fleet:
        await fleet.add(Role.PREFILL, StubSettings(context_length=512))
        assert fleet.table().deployments[0].context_length == 512
        await bench.start()
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(lambda: bench.router.tables.find(MODEL) is not None)
        overhead = len("<user>\n<assistant>")
        for prompt, limit in (("x" * 600, 1), ("x" * 100, 500), ("x" * 512, 1)):
            status, refused = await bench.chat(prompt, max_tokens=limit)
            assert (status, refused["error"]["code"]) == (400, "context_length_exceeded"), refused
            assert "512" in refused["error"]["message"]
            assert str(len(prompt) + overhead + limit) in refused["error"]["message"]
        assert (await bench.chat("x" * 100, max_tokens=200))[0] == 200
        fleet.default_max_tokens = 500
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(lambda: bench.router.tables.deployments[0].default_max_tokens == 500)
        status, clipped = await bench.chat("x" * 400)
        assert (status, clipped["usage"]["total_tokens"]) == (200, 512)
        assert "worker_faults_total{" not in await bench.metrics()
        await fleet.settled()
        await bench.at_rest()
        await bench.restart_router(lambda: None)
