"""Answers that another worker goes on with: the client sees one whole stream, as if nothing had happened (F32)."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from inference.contracts.errors import ErrorCode
from inference.contracts.routing import DeploymentRoute
from inference.contracts.routing_policy import RoutingPolicy
from inference.contracts.states import HandoffFailure, Role
from inference.router.workers.pool import Pool
from inference.testing.faults import Fault, FaultKind, FaultPlan, FaultPoint
from inference.testing.fleet import MODEL, stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.worker.limits import WorkerLimits
from tests.inference.router.conftest import LOCAL_PREFILL_TOKENS, LONG, PATIENT, SHORT, Bench, eventually
from tests.inference.router.scripted import PIECES, SECRET, Misstep
from tests.inference.router.test_faults import ANSWER, once, text_of

PROMPT = "Write something long about a tandem, please, and do not stop before it is told."
FAST = WorkerLimits(lease_s=1.0, handoff_wait_s=2.0, handoff_s=1.0, kv_wait_s=1.0, stop_s=1.0)


def finish_of(events: list[tuple[str | None, str]]) -> list[str]:
    chunks = [json.loads(data) for name, data in events if name is None and data != "[DONE]"]
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    return [reason for reason in reasons if reason is not None]


def usage_of(events: list[tuple[str | None, str]]) -> dict:
    chunks = [json.loads(data) for name, data in events if name is None and data != "[DONE]"]
    return next(chunk["usage"] for chunk in chunks if chunk.get("usage"))


async def publish(bench: Bench, **settings: object) -> None:
    """The same workers, with other settings of their deployment."""
    route = bench.router.tables.deployments[0]
    changed = DeploymentRoute(**{field: getattr(route, field) for field in route.__struct_fields__} | settings)
    bench.publish_deployments(changed)
    await eventually(lambda: bench.router.tables.deployments[0] == changed)


@pytest.mark.parametrize("how", ["crash", "fail", "hang", "garbage", "end"])
@pytest.mark.parametrize("text", [SHORT, LONG])
@pytest.mark.parametrize("after", [1, 4])
async def test_a_stream_goes_on_elsewhere_without_a_gap(bench: Bench, how: str, text: str, after: int) -> None:
    workers = [bench.worker(role) for role in (Role.PREFILL, Role.DECODE, Role.PREFILL, Role.DECODE)]
    await bench.start()
    broken = once(Misstep(how, after=after))
    for worker in workers:
        worker.missteps["generate"] = broken
    events = await bench.stream(text, stream_options={"include_usage": True})
    assert text_of(events) == ANSWER
    assert finish_of(events) == ["stop"]
    assert events[-1] == (None, "[DONE]")
    assert usage_of(events)["completion_tokens"] == len(PIECES)
    assert usage_of(events)["prompt_tokens"] == len(text)
    timing = json.loads(events[-2][1])
    assert timing["retries"] == 1
    assert sum(part["seconds"] for part in timing["segments"]) == pytest.approx(timing["ttft_s"], abs=1e-9)
    assert 'tandem_router_continuations_total{deployment="chat"} 1.0' in await bench.metrics()
    await bench.at_rest()


async def test_the_account_names_who_read_the_prompt_though_the_rest_went_another_way(bench: Bench) -> None:
    """The prompt alone is short enough for the decode worker; with what is written it is not."""
    workers = [bench.worker(role) for role in (Role.PREFILL, Role.DECODE, Role.DECODE)]
    await bench.start()
    broken = once(Misstep("crash", after=4))
    for worker in workers:
        worker.missteps["generate"] = broken
    events = await bench.stream("x" * (LOCAL_PREFILL_TOKENS - 2))
    assert text_of(events) == ANSWER
    timing = json.loads(events[-2][1])
    assert (timing["retries"], timing["path"], timing["prefill_worker"]) == (1, "local", None)
    assert workers[0].calls["prefill"]


async def test_an_answer_that_breaks_twice_is_gone_on_with_twice(bench: Bench) -> None:
    for _ in range(3):
        bench.worker(Role.UNIFIED)
    await bench.start()
    broken = Misstep("crash", after=2, times=2)
    for worker in bench.workers:
        worker.missteps["generate"] = broken
    events = await bench.stream(SHORT)
    assert text_of(events) == ANSWER
    await bench.at_rest()


async def test_an_answer_that_ended_is_whole_though_its_last_word_was_lost(bench: Bench) -> None:
    """Nothing is missing but the figures."""
    workers = [bench.worker(Role.UNIFIED), bench.worker(Role.UNIFIED)]
    await bench.start()
    for worker in workers:
        worker.tells_finish = True
        worker.missteps["generate"] = Misstep("crash", after=len(PIECES))
    events = await bench.stream(SHORT, stream_options={"include_usage": True})
    assert text_of(events) == ANSWER
    assert finish_of(events) == ["stop"]
    assert usage_of(events)["completion_tokens"] == len(PIECES)
    assert sum(worker.calls["generate"] for worker in workers) == 1
    await bench.at_rest()


async def test_without_another_worker_the_client_is_told(bench: Bench) -> None:
    worker = bench.worker(Role.UNIFIED)
    worker.missteps["generate"] = Misstep("crash", after=3)
    await bench.start()
    events = await bench.stream(SHORT)
    assert json.loads(events[-1][1])["error"]["code"] == "engine_failed"
    assert finish_of(events[:-1]) == []
    await bench.at_rest()


# --- hand-offs that fail ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "status", "prefills"),
    [
        (HandoffFailure.FAIL, 502, 1),
        (HandoffFailure.RETRY_PREFILL, 200, 2),
        (HandoffFailure.RECOMPUTE_ON_DECODE, 200, 1),
    ],
)
async def test_a_failed_hand_off_ends_as_the_deployment_wants(
    bench: Bench, policy: HandoffFailure, status: int, prefills: int
) -> None:
    p1, p2, decode = bench.worker(Role.PREFILL), bench.worker(Role.PREFILL), bench.worker(Role.DECODE)
    p1.missteps["prefill"] = p2.missteps["prefill"] = Misstep("fail", ErrorCode.TRANSFER_FAILED, times=1)
    await bench.start()
    await publish(bench, policy=RoutingPolicy(handoff_failure=policy))
    got, answer = await bench.chat(LONG)
    assert got == status
    if status == 200:
        assert answer["choices"][0]["message"]["content"] == ANSWER
    assert p1.calls["prefill"] + p2.calls["prefill"] == prefills
    assert decode.calls["reserve"] == (1 if status == 502 else 2)
    await bench.at_rest()


@pytest.mark.parametrize("policy", [HandoffFailure.RETRY_PREFILL, HandoffFailure.RECOMPUTE_ON_DECODE])
async def test_kv_that_is_refused_after_the_first_token_is_made_again(bench: Bench, policy: HandoffFailure) -> None:
    """F01: no token is made from KV that was not verified, and none is sent twice."""
    p1, p2, decode = bench.worker(Role.PREFILL), bench.worker(Role.PREFILL), bench.worker(Role.DECODE)
    p1.missteps["prefill"] = p2.missteps["prefill"] = Misstep("fail", ErrorCode.CHECKSUM_MISMATCH, after=1, times=1)
    decode.missteps["generate"] = Misstep("hang", times=1)
    await bench.start()
    await publish(bench, policy=RoutingPolicy(handoff_failure=policy))
    events = await bench.stream(LONG)
    assert text_of(events) == ANSWER
    await bench.at_rest()


async def test_a_pair_that_failed_is_avoided_while_its_workers_serve_others(bench: Bench) -> None:
    p1, p2, decode = bench.worker(Role.PREFILL), bench.worker(Role.PREFILL), bench.worker(Role.DECODE)
    bench.limits = dataclasses.replace(bench.limits, suspect_s=60.0)
    p1.missteps["prefill"] = Misstep("fail", ErrorCode.TRANSFER_FAILED, times=1)
    await bench.start()
    for number in range(12):
        assert (await bench.chat(f"{LONG} {number}"))[0] == 200
    assert p1.calls["prefill"] <= 1
    assert p2.calls["prefill"] >= 11
    assert decode.calls["generate"] >= 12


# --- deadlines of a deployment ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "call", "misstep"),
    [
        (RoutingPolicy(reserve_s=0.2), "reserve", Misstep("hang")),
        (RoutingPolicy(first_token_s=0.2), "generate", Misstep("hang")),
        (RoutingPolicy(idle_s=0.2), "generate", Misstep("hang", after=1)),
        (RoutingPolicy(total_s=0.2), "generate", Misstep("slow", seconds=0.05)),
    ],
)
async def test_a_deployment_may_have_deadlines_of_its_own(
    bench: Bench, policy: RoutingPolicy, call: str, misstep: Misstep
) -> None:
    worker = bench.worker(Role.UNIFIED)
    bench.deadlines = PATIENT
    worker.missteps[call] = misstep
    await bench.start()
    await publish(bench, policy=policy)
    status, answer = await bench.chat(SHORT)
    assert (status, answer["error"]["code"]) == (504, "deadline_exceeded")
    await bench.at_rest()


async def test_a_deployment_may_wait_for_connections_as_long_as_it_says(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.worker(Role.UNIFIED)
    bench.deadlines = PATIENT
    await bench.start()
    await publish(bench, policy=RoutingPolicy(connect_s=0.2))

    async def connect(*_: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(Pool, "connect", connect)
    status, answer = await bench.chat(SHORT)
    assert (status, answer["error"]["code"]) == (504, "deadline_exceeded")


# --- real workers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampled", [{"temperature": 0}, {"temperature": 1.0, "seed": 9}])
@pytest.mark.parametrize("local", [0, 10_000])
@pytest.mark.parametrize("after", [0, 1, 20])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_decode_worker_that_is_killed_leaves_no_trace_in_the_answer(
    bench: Bench, sampled: dict, local: int, after: int, stream: bool
) -> None:
    """F32: after 0, 1 and 20 tokens; drawn tokens are those that would have been drawn."""
    bench.model = MODEL
    bench.deadlines = dataclasses.replace(PATIENT, orphan_s=2.0)
    ask = {"max_tokens": 40, **sampled}
    async with stub_fleet(2, 2, settings=StubSettings(decode_s_per_token=0.001), limits=FAST, secret=SECRET) as fleet:
        fleet.local_prefill_tokens = local
        await bench.start()
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(
            lambda: bench.router.tables.deployments and len(bench.router.tables.deployments[0].workers) == 4
        )
        _, whole = await bench.chat(PROMPT, **ask)
        expected = whole["choices"][0]["message"]["content"]
        crash = FaultPlan([Fault(point=FaultPoint.MID_DECODE, kind=FaultKind.CRASH, after=after)])
        for worker in fleet.decode:
            worker.engine.faults = crash  # whichever of them answers dies of it
        if stream:
            events = await bench.stream(PROMPT, **ask)
            assert text_of(events) == expected
            assert finish_of(events) == ["length"]
        else:
            status, answer = await bench.chat(PROMPT, **ask)
            assert (status, answer["choices"]) == (200, whole["choices"])
            assert answer["usage"]["completion_tokens"] == 40
        await fleet.settled()
        await bench.at_rest()
        await bench.restart_router(lambda: None)
