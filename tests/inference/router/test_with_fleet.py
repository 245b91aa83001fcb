"""The router in front of real worker servers with stub engines: hand-offs over sockets, verified KV, real blocks."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from inference.contracts.states import KVTransport, Role
from inference.testing.faults import Fault, FaultKind, FaultPoint
from inference.testing.fleet import MODEL, StubFleet, stub_fleet
from inference.testing.stub_kv import KV_BYTES_PER_TOKEN
from inference.testing.stub_settings import StubSettings
from inference.worker.limits import WorkerLimits
from tests.inference.router.conftest import PATIENT, Bench, eventually
from tests.inference.router.scripted import SECRET
from tests.inference.router.test_faults import text_of
from tests.inference.router.test_leaving import LeavingClient

PROMPTS = ("Hi", "What is a tandem?", "긴 한국어 질문입니다 🙂", "def f(x):\n    return x\n" * 8, "word " * 120)
FAST = WorkerLimits(lease_s=1.0, handoff_wait_s=2.0, handoff_s=1.0, kv_wait_s=1.0, stop_s=1.0)
LOCAL = 48


class FleetBench:
    def __init__(self, bench: Bench, fleet: StubFleet) -> None:
        self.bench = bench
        self.fleet = fleet

    async def publish(self) -> None:
        table = self.fleet.table()
        self.bench.publish_deployments(*table.deployments)
        served = table.deployments[0].workers
        await eventually(lambda: self.bench.router.tables.deployments[0].workers == served)

    async def at_rest(self) -> None:
        await self.fleet.settled()
        await self.bench.at_rest()


@pytest.fixture
async def served(bench: Bench) -> AsyncIterator[FleetBench]:
    """Two prefill and two decode workers."""
    bench.model = MODEL
    bench.deadlines = dataclasses.replace(PATIENT, orphan_s=2.0)
    async with stub_fleet(2, 2, settings=StubSettings(), limits=FAST, secret=SECRET) as fleet:
        fleet.local_prefill_tokens = LOCAL
        await bench.start()
        served = FleetBench(bench, fleet)
        await served.publish()
        yield served
        await served.at_rest()
        await bench.restart_router(lambda: None)  # so that its connections end before the workers do


def received(fleet: StubFleet) -> int:
    return sum(worker.load.kv_bytes_received for worker in fleet.decode)


async def test_split_and_unsplit_answers_are_equal_streamed_and_whole(served: FleetBench) -> None:
    bench, fleet = served.bench, served.fleet
    split = [await bench.chat(prompt, temperature=0, max_tokens=12) for prompt in PROMPTS]
    streams = [await bench.stream(prompt, temperature=0, max_tokens=12) for prompt in PROMPTS]
    assert received(fleet) > 0
    for worker in list(fleet.workers):
        await worker.stop()
    await fleet.add(Role.UNIFIED, StubSettings(), FAST)
    await served.publish()
    for prompt, (status, answer), events in zip(PROMPTS, split, streams, strict=True):
        assert status == 200
        status, whole = await bench.chat(prompt, temperature=0, max_tokens=12)
        assert status == 200
        assert whole["choices"][0]["message"]["content"] == answer["choices"][0]["message"]["content"]
        assert whole["usage"] == answer["usage"]
        assert text_of(events) == answer["choices"][0]["message"]["content"]


async def test_sampling_draws_one_sequence_over_both_workers(served: FleetBench) -> None:
    bench = served.bench
    _, first = await bench.chat(PROMPTS[-1], temperature=1.0, seed=5, max_tokens=12)
    _, again = await bench.chat(PROMPTS[-1], temperature=1.0, seed=5, max_tokens=12)
    assert first["choices"] == again["choices"]


async def test_every_kv_byte_of_a_long_prompt_reaches_decode(served: FleetBench) -> None:
    bench, fleet = served.bench, served.fleet
    events = await bench.stream(PROMPTS[-1], max_tokens=4)
    timing = json.loads(events[-2][1])
    assert timing["path"] == "handoff"
    assert received(fleet) >= timing["prompt_tokens"] * KV_BYTES_PER_TOKEN
    assert timing["handoff_bytes"] >= timing["prompt_tokens"] * KV_BYTES_PER_TOKEN
    assert sum(part["seconds"] for part in timing["segments"]) == pytest.approx(timing["ttft_s"], abs=1e-9)
    for stage in ("prefill_queue", "prefill"):
        assert any(part["name"] == stage for part in timing["segments"])
    assert timing["handoff_s"] > 0
    assert timing["decode_wait_s"] is not None
    before = received(fleet)
    await bench.chat("Hi")
    assert received(fleet) == before


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("prompt", [PROMPTS[0], PROMPTS[-1]])
async def test_exactly_so_many_tokens(served: FleetBench, limit: int, prompt: str) -> None:
    """F03."""
    status, answer = await served.bench.chat(prompt, max_tokens=limit)
    assert status == 200
    assert answer["usage"]["completion_tokens"] == limit
    assert answer["choices"][0]["finish_reason"] == "length"


async def test_a_prompt_at_the_limit_fits_and_one_beyond_is_refused_with_both_numbers(served: FleetBench) -> None:
    """F30."""
    bench = served.bench
    overhead = len("<user>\n<assistant>")
    status, _ = await bench.chat("x" * (2048 - overhead - 1), max_tokens=1)
    assert status == 200
    status, answer = await bench.chat("x" * (2048 - overhead), max_tokens=1)
    assert status == 400
    assert answer["error"]["code"] == "context_length_exceeded"
    assert "2048" in answer["error"]["message"]
    assert "2049" in answer["error"]["message"]
    status, answer = await bench.chat("x" * (2048 - overhead - 1))
    assert (status, answer["usage"]["completion_tokens"]) == (200, 1)


@pytest.mark.parametrize("kind", [FaultKind.REFUSE, FaultKind.CRASH, FaultKind.SLOW])
@pytest.mark.parametrize("point", [FaultPoint.BEFORE_PREFILL, FaultPoint.AFTER_PREFILL, FaultPoint.MID_TRANSFER])
async def test_a_fault_before_the_first_token_is_not_seen_by_the_client(
    served: FleetBench, point: FaultPoint, kind: FaultKind
) -> None:
    """F15: (a) while computing, (c) mid-transfer."""
    bench, fleet = served.bench, served.fleet
    _, expected = await bench.chat(PROMPTS[-1], temperature=0, max_tokens=8)
    fault = Fault(point=point, kind=kind, seconds=0.2)
    for worker in fleet.prefill[:1]:
        worker.engine.faults.plant(fault)
    started = time.monotonic()
    for _ in range(4):
        status, answer = await bench.chat(PROMPTS[-1], temperature=0, max_tokens=8)
        assert status == 200
        assert answer["choices"] == [{**expected["choices"][0]}]
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("role", [Role.PREFILL, Role.DECODE])
async def test_killed_workers_are_replaced_before_the_first_token(served: FleetBench, role: Role) -> None:
    bench, fleet = served.bench, served.fleet
    victims = fleet.prefill if role is Role.PREFILL else fleet.decode
    for worker in fleet.prefill:
        worker.engine.settings = StubSettings(prefill_s_per_token=0.001)
    asking = [asyncio.create_task(bench.chat(PROMPTS[-1], max_tokens=4)) for _ in range(4)]
    await eventually(lambda: victims[0].load.handoffs > 0)
    await victims[0].kill()
    answers = await asyncio.gather(*asking)
    assert [status for status, _ in answers] == [200] * 4


async def test_a_decode_worker_killed_in_the_middle_ends_the_stream_with_an_error(served: FleetBench) -> None:
    """F32."""
    bench, fleet = served.bench, served.fleet
    for worker in fleet.decode:
        worker.engine.faults.plant(Fault(point=FaultPoint.MID_DECODE, kind=FaultKind.CRASH, after=5))
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": PROMPTS[-1]}]}
    async with bench.http.post("/v1/chat/completions", json=body) as answer:
        text = await answer.text()
    assert '"error"' in text
    assert "[DONE]" not in text
    assert '"finish_reason":"' not in text


@pytest.mark.parametrize("stream", [False, True])
async def test_clients_that_leave_during_prefill_leave_no_blocks(served: FleetBench, stream: bool) -> None:
    """F07: and a short request that follows is not delayed by the abandoned prompt."""
    bench, fleet = served.bench, served.fleet
    for worker in fleet.prefill:
        worker.engine.settings = StubSettings(prefill_s_per_token=0.005)
    clients = [LeavingClient(bench) for _ in range(6)]
    for client in clients:
        await client.ask(PROMPTS[-1], stream=stream)
    await eventually(lambda: sum(worker.load.handoffs for worker in fleet.prefill) >= 2)
    for client in clients:
        await client.leave()
    status, _ = await bench.chat("Hi", max_tokens=2)
    assert status == 200
    await served.at_rest()


async def test_a_request_that_only_the_worker_can_refuse_holds_nothing(served: FleetBench) -> None:
    """F08: refused before any prefill."""
    bench, fleet = served.bench, served.fleet
    for _ in range(10):
        async with bench.http.post(
            "/v1/completions", json={"model": MODEL, "prompt": [10**6] * 100, "max_tokens": 2}
        ) as answer:
            assert answer.status == 400
    assert received(fleet) == 0
    await served.at_rest()


async def test_a_draining_worker_gets_no_new_requests_and_finishes_its_own(served: FleetBench) -> None:
    bench, fleet = served.bench, served.fleet
    for worker in fleet.decode:
        worker.engine.settings = StubSettings(decode_s_per_token=0.02)
    running = [asyncio.create_task(bench.stream(PROMPTS[-1], max_tokens=20)) for _ in range(4)]
    await eventually(lambda: all(worker.load.running for worker in fleet.decode))
    fleet.decode[0].server.worker.state.draining = True
    for _ in range(4):
        assert (await bench.chat("Hi", max_tokens=1))[0] == 200
    for events in await asyncio.gather(*running):
        assert events[-1] == (None, "[DONE]")


async def test_a_table_that_is_behind_a_change_of_roles_costs_a_retry_and_no_request(served: FleetBench) -> None:
    """Two workers have swapped roles since the table was made: neither the client nor the workers are to blame."""
    bench, fleet = served.bench, served.fleet
    table = fleet.table().deployments[0]
    target = fleet.decode[0].route.transfer
    swapped = {fleet.prefill[0].spec.worker_id: Role.DECODE, fleet.decode[0].spec.worker_id: Role.PREFILL}
    behind = tuple(
        msgspec.structs.replace(worker, role=swapped[worker.worker_id], transfer=target)
        if worker.worker_id in swapped
        else worker
        for worker in table.workers
    )
    bench.publish_deployments(msgspec.structs.replace(table, workers=behind))
    await eventually(lambda: bench.router.tables.deployments[0].workers == behind)
    for prompt in PROMPTS * 4:
        assert (await bench.chat(prompt, max_tokens=3))[0] == 200
    metrics = await bench.metrics()
    assert 'retries_total{deployment="stub"}' in metrics
    assert "worker_faults_total{" not in metrics
    await served.publish()


async def test_a_worker_with_another_cluster_secret_is_not_used(served: FleetBench) -> None:
    bench, fleet = served.bench, served.fleet
    async with stub_fleet(0, 0, 1, secret="another cluster") as strangers:
        table = fleet.table().deployments[0]
        bench.publish_deployments(msgspec.structs.replace(table, workers=(strangers.decode[0].route,)))
        await eventually(lambda: len(bench.router.tables.deployments[0].workers) == 1)
        assert (await bench.chat("Hi"))[0] == 502
    await served.publish()


async def test_every_pair_is_tried_and_its_transport_told(served: FleetBench) -> None:
    bench = served.bench
    await bench.router.pairs.try_new()
    assert len(bench.router.pairs.known()) == 4
    assert {report.transport for report in bench.router.pairs.known().values()} == {KVTransport.SHARED_MEMORY}
    assert (await bench.metrics()).count("tandem_router_pair_bytes_per_second{") == 4
    await served.at_rest()
