"""What is told of times and levels is what happened: F36, F37 and F38."""

from __future__ import annotations

import json
import re
import time

import aiohttp
import pytest

from inference.contracts.errors import ErrorCode
from inference.contracts.states import Role
from inference.router.choosing.standing import key_of
from inference.router.telling.metrics import Metrics
from inference.testing.fleet import MODEL, stub_fleet
from inference.testing.stub_settings import StubSettings
from tests.inference.router.conftest import LONG, PATIENT, Bench, eventually
from tests.inference.router.scripted import SECRET, Misstep
from tests.inference.router.test_leaving import LeavingClient

TIMES = [
    *(("ttft", seconds) for seconds in (0.005, 0.04, 2.0, 90.0, 900.0)),
    *(("e2e", seconds) for seconds in (0.005, 2.0, 900.0)),
    *(("tpot", seconds) for seconds in (0.0005, 0.004, 0.04, 3.0, 20.0)),
    *(("first_gap", seconds) for seconds in (0.0005, 3.0)),
]


@pytest.mark.parametrize(("name", "seconds"), TIMES)
def test_times_from_milliseconds_to_tens_of_minutes_have_a_bucket_of_their_own(name: str, seconds: float) -> None:
    """F36: what a quantile says is off by less than one bucket, and no bucket is wide."""
    metrics = Metrics(dict, dict, lambda: None, dict)
    getattr(metrics, name).labels("chat").observe(seconds)
    counts = {
        float(line.partition('le="')[2].partition('"')[0]): float(line.rpartition(" ")[2])
        for line in metrics.expose().decode().splitlines()
        if line.startswith(f"tandem_router_{name}_seconds_bucket")
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


async def test_workers_that_were_replaced_leave_no_series_behind(bench: Bench) -> None:
    """F37: every worker five times; what is counted goes on."""
    bench.model, bench.deadlines = MODEL, PATIENT
    async with stub_fleet(2, 2, secret=SECRET) as fleet:
        await bench.start()
        for generation in range(5):
            for worker in [each for each in fleet.workers if each.alive] if generation else ():
                await fleet.add(worker.spec.role)
                await worker.stop()
            served = fleet.table().deployments[0]
            bench.publish_deployments(served)
            await eventually(lambda served=served: bench.router.tables.deployments == (served,))
            for number in range(4):
                assert (await bench.chat(f"{generation} {number} {LONG}", max_tokens=2))[0] == 200
            await bench.router.pairs.try_new()
            told = await bench.metrics()
            named = set(re.findall(r'(?:prefill|decode)_worker="([^"]*)"', told))
            assert named == {worker.worker_id for worker in served.workers}
            assert f'requests_total{{deployment="stub",outcome="completed"}} {4 * generation + 4}.0' in told
        living = {key_of(worker) for worker in served.workers}
        await eventually(lambda: set(bench.router.knowledge.standings) <= living)
        await bench.restart_router(lambda: None)


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


async def test_a_retried_request_counts_once_from_when_it_came(bench: Bench) -> None:
    """F38: what failed first is part of its time to first token, told apart; the pace of its tokens knows nothing of
    it."""
    bench.deadlines = PATIENT
    workers = [bench.worker(role) for role in (Role.PREFILL, Role.PREFILL, Role.DECODE)]
    late = Misstep("fail", ErrorCode.TRANSFER_FAILED, seconds=0.2, times=1)
    for worker in workers[:2]:
        worker.missteps["prefill"] = late
    await bench.start()
    events = await bench.stream(LONG)
    timing = json.loads(events[-2][1])
    parts = {part["name"]: part["seconds"] for part in timing["segments"]}
    assert timing["retries"] == 1
    assert parts["retry"] >= 0.19
    assert sum(parts.values()) == pytest.approx(timing["ttft_s"], abs=1e-9)
    assert timing["ttft_s"] + timing["tpot_s"] * (timing["completion_tokens"] - 1) <= timing["e2e_s"] + 1e-9
    told = await bench.metrics()
    for name in ("ttft", "e2e", "tpot", "first_gap"):
        assert f'tandem_router_{name}_seconds_count{{deployment="chat"}} 1.0' in told
    assert f'tandem_router_ttft_seconds_sum{{deployment="chat"}} {timing["ttft_s"]}' in told


async def test_what_was_given_up_before_its_first_token_has_no_times(bench: Bench) -> None:
    """F38: it is counted apart."""
    prefill, decode = bench.pair()
    prefill.missteps["prefill"] = Misstep("hang", times=1)
    await bench.start()
    client = LeavingClient(bench)
    await client.ask(LONG, stream=True)
    await eventually(lambda: prefill.streams["prefill"] == 1 and decode.streams["generate"] == 1)
    await client.leave()
    await bench.at_rest()
    told = await bench.metrics()
    assert 'requests_total{deployment="chat",outcome="cancelled"} 1.0' in told
    assert not any(f"tandem_router_{name}_seconds_count{{" in told for name in ("ttft", "e2e", "tpot", "first_gap"))
