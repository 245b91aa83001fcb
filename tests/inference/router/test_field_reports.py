"""Problems that people hit on other systems, as they would meet the router."""

from __future__ import annotations

import asyncio
import json
import time

import aiohttp
import pytest

from inference.contracts.routing import DeploymentRoute
from inference.contracts.states import Role
from inference.router.telling.metrics import Metrics
from inference.testing.fleet import MODEL, stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.worker.limits import WorkerLimits
from tests.inference.router.conftest import LONG, PATIENT, Bench, eventually
from tests.inference.router.scripted import SECRET
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


@pytest.mark.parametrize("seconds", [0.005, 2.0, 90.0, 900.0])
def test_times_from_milliseconds_to_tens_of_minutes_have_a_bucket_of_their_own(seconds: float) -> None:
    """F36."""
    metrics = Metrics(dict, dict, lambda: None, dict)
    metrics.ttft.labels("chat").observe(seconds)
    lines = metrics.expose().decode().splitlines()
    counts = {
        float(line.partition('le="')[2].partition('"')[0]): float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("tandem_router_ttft_seconds_bucket")
    }
    first = min(limit for limit, count in counts.items() if count)
    below = max((limit for limit, count in counts.items() if not count), default=0.0)
    assert first < float("inf")
    assert below < seconds <= first <= 5 * max(below, 0.002)


async def test_a_deployment_that_is_gone_leaves_no_level_behind(bench: Bench) -> None:
    """F37: what is counted stays, what is level goes; labels name no worker."""
    bench.pair()
    await bench.start()
    await bench.chat(LONG)
    levels = ("tandem_router_in_flight{", "tandem_router_waiting{")
    before = await bench.metrics()
    assert all(f'{level}deployment="chat"}} 0.0' in before for level in levels)
    bench.publish_deployments()
    await eventually(lambda: not bench.router.tables.deployments)
    after = await bench.metrics()
    assert not any(level in after for level in levels)
    assert 'tandem_router_requests_total{deployment="chat",outcome="completed"} 1.0' in after
    assert not any(worker.worker_id in after for worker in bench.workers)


@pytest.mark.parametrize("tokens", [1, 8])
async def test_the_time_to_first_token_is_what_the_client_saw_and_its_parts_add_up(bench: Bench, tokens: int) -> None:
    """F38: prefill counts, what comes after the first token does not."""
    bench.model, bench.deadlines = MODEL, PATIENT
    settings = StubSettings(prefill_s_per_token=0.002, decode_s_per_token=0.02)
    async with stub_fleet(1, 1, settings=settings, secret=SECRET) as fleet:
        await bench.start()
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(lambda: bench.router.tables.find(MODEL) is not None)
        body = {"model": MODEL, "messages": [{"role": "user", "content": "x" * 100}], "stream": True}
        headers = {"X-Tandem-Timings": "1"}
        began = time.perf_counter()
        seen_s, timing = await _timed(bench.http, body | {"max_tokens": tokens}, headers, began)
        assert 0.2 <= timing["ttft_s"] <= seen_s
        assert sum(part["seconds"] for part in timing["segments"]) == pytest.approx(timing["ttft_s"], abs=1e-9)
        assert next(part["seconds"] for part in timing["segments"] if part["name"] == "prefill") >= 0.19
        if tokens == 1:
            assert timing["tpot_s"] is None
        else:
            assert timing["tpot_s"] >= 0.02
        await bench.restart_router(lambda: None)


async def _timed(http: aiohttp.ClientSession, body: dict, headers: dict, began: float) -> tuple[float, dict]:
    """Seconds until the first text as the client has them, and what the router says."""
    seen_s = None
    name = ""
    async with http.post("/v1/chat/completions", json=body, headers=headers) as answer:
        async for line in answer.content:
            if line.startswith(b"event: "):
                name = line[7:].decode().strip()
            elif name == "timings" and line.startswith(b"data: "):
                assert seen_s is not None
                return seen_s, json.loads(line[6:])
            elif seen_s is None and b'"content":"' in line and b'"content":""' not in line:
                seen_s = time.perf_counter() - began
    raise AssertionError("no timings came")


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
