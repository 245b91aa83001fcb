"""Workers that refuse, break, hang and stall: what the client sees, and that nothing stays held."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time

import aiohttp
import openai
import pytest

from inference.contracts import names
from inference.contracts.errors import ErrorCode
from inference.contracts.states import Role
from tests.inference.router.conftest import DEADLINES, LONG, MODEL, PATIENT, SHORT, Bench, events_of, eventually
from tests.inference.router.scripted import PIECES, Misstep, ScriptedWorker

ANSWER = "".join(PIECES)

#: Everything that can go wrong on a leg before its first event.
BEFORE_FIRST = [
    pytest.param(Misstep("refuse", ErrorCode.ENGINE_FAILED), id="500"),
    pytest.param(Misstep("refuse", ErrorCode.UNAUTHENTICATED), id="401"),
    pytest.param(Misstep("fail", ErrorCode.ENGINE_FAILED), id="failed"),
    pytest.param(Misstep("fail", ErrorCode.TRANSFER_FAILED), id="transfer-failed"),
    pytest.param(Misstep("fail", ErrorCode.CHECKSUM_MISMATCH), id="checksum"),
    pytest.param(Misstep("crash"), id="crash"),
    pytest.param(Misstep("hang"), id="hang"),
    pytest.param(Misstep("garbage"), id="garbage"),
    pytest.param(Misstep("end"), id="ended-early"),
]
RESERVE_FAULTS = [
    pytest.param(Misstep("refuse", ErrorCode.ENGINE_FAILED), id="500"),
    pytest.param(Misstep("refuse", ErrorCode.KV_FULL), id="kv-full"),
    pytest.param(Misstep("refuse", ErrorCode.DRAINING), id="draining"),
    pytest.param(Misstep("refuse", ErrorCode.MODEL_NOT_FOUND), id="another-model"),
    pytest.param(Misstep("crash"), id="crash"),
    pytest.param(Misstep("hang"), id="hang"),
]


def assert_whole(answer: dict) -> None:
    assert answer["choices"][0]["message"]["content"] == ANSWER
    assert answer["usage"]["completion_tokens"] == len(PIECES)


async def two_pairs(bench: Bench) -> tuple[ScriptedWorker, ScriptedWorker, ScriptedWorker, ScriptedWorker]:
    p1, d1 = bench.pair()
    p2, d2 = bench.pair()
    await bench.start()
    return p1, d1, p2, d2


def only(bench: Bench, *workers: ScriptedWorker) -> None:
    """Publish just these, so that the first choice is certain."""
    bench.publish(list(workers))


# --- before the first token: answered elsewhere -----------------------------------------------------------------


@pytest.mark.parametrize("misstep", BEFORE_FIRST)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_failing_prefill_leg_is_replaced(bench: Bench, misstep: Misstep, stream: bool) -> None:
    """F15: (a) while computing."""
    bad, _, good, _ = await two_pairs(bench)
    bad.missteps["prefill"] = good.missteps["prefill"] = once(misstep)  # whichever is asked first
    started = time.monotonic()
    if stream:
        events = await bench.stream(LONG)
        assert text_of(events) == ANSWER
        timing = json.loads(events[-2][1])
        assert timing["retries"] == 1
        assert sum(part["seconds"] for part in timing["segments"]) == pytest.approx(timing["ttft_s"], abs=1e-9)
        assert "retry" in {part["name"] for part in timing["segments"]}
    else:
        status, answer = await bench.chat(LONG)
        assert status == 200
        assert_whole(answer)
    assert bad.calls["prefill"] + good.calls["prefill"] == 2
    assert time.monotonic() - started < 5
    await bench.at_rest()


@pytest.mark.parametrize("misstep", BEFORE_FIRST)
async def test_a_failing_answer_leg_of_a_local_prefill_is_replaced(bench: Bench, misstep: Misstep) -> None:
    _, d1, _, d2 = await two_pairs(bench)
    d1.missteps["generate"] = d2.missteps["generate"] = once(misstep)
    status, answer = await bench.chat(SHORT)
    assert status == 200
    assert_whole(answer)
    assert d1.calls["reserve"] + d2.calls["reserve"] == 2
    await bench.at_rest()


@pytest.mark.parametrize("misstep", [param for param in BEFORE_FIRST if param.id != "hang"])
async def test_a_failing_answer_leg_stops_the_prefill_and_is_replaced(bench: Bench, misstep: Misstep) -> None:
    """F15: the decode leg fails while the prompt is read. (One that only hangs shows after the first token.)"""
    _, d1, _, d2 = await two_pairs(bench)
    d1.missteps["generate"] = d2.missteps["generate"] = once(misstep)
    status, answer = await bench.chat(LONG)
    assert status == 200
    assert_whole(answer)
    assert d1.calls["reserve"] + d2.calls["reserve"] == 2
    await bench.at_rest()


@pytest.mark.parametrize("misstep", RESERVE_FAULTS)
async def test_a_failing_reservation_is_made_elsewhere(bench: Bench, misstep: Misstep) -> None:
    p1, d1, p2, d2 = await two_pairs(bench)
    d1.missteps["reserve"] = d2.missteps["reserve"] = once(misstep)
    status, answer = await bench.chat(LONG)
    assert status == 200
    assert_whole(answer)
    assert p1.calls["prefill"] + p2.calls["prefill"] == 1
    await bench.at_rest()


async def test_a_hand_off_that_fails_is_tried_with_another_partner_of_the_same_worker(bench: Bench) -> None:
    p1, p2, decode = bench.worker(Role.PREFILL), bench.worker(Role.PREFILL), bench.worker(Role.DECODE)
    p1.missteps["prefill"] = p2.missteps["prefill"] = Misstep("fail", ErrorCode.TRANSFER_FAILED, times=1)
    await bench.start()
    status, answer = await bench.chat(LONG)
    assert status == 200
    assert_whole(answer)
    assert (p1.calls["prefill"], p2.calls["prefill"], decode.calls["reserve"]) == (1, 1, 2)
    await bench.at_rest()


async def test_decode_that_heard_of_a_prefill_failure_is_not_blamed_for_it(bench: Bench) -> None:
    """One decode worker, two prefill workers: the word of the failure may come over the answer leg first."""
    p1, p2, decode = bench.worker(Role.PREFILL), bench.worker(Role.PREFILL), bench.worker(Role.DECODE)
    bench.deadlines = PATIENT
    p1.missteps["prefill"] = p2.missteps["prefill"] = Misstep("hang", times=1)
    decode.missteps["generate"] = Misstep("fail", ErrorCode.ENGINE_FAILED, times=1)
    await bench.start()
    status, answer = await bench.chat(LONG)
    assert status == 200
    assert_whole(answer)
    assert (p1.calls["prefill"], p2.calls["prefill"], decode.calls["reserve"]) == (1, 1, 2)
    await bench.at_rest()


async def test_without_another_pair_a_fault_is_a_gateway_error(bench: Bench) -> None:
    prefill, _ = bench.pair()
    prefill.missteps["prefill"] = Misstep("crash")
    await bench.start()
    status, answer = await bench.chat(LONG)
    assert status == 502
    assert answer["error"]["type"] == "server_error"
    assert "the prefill stage" in answer["error"]["message"]
    await bench.at_rest()


async def test_attempts_are_bounded(bench: Bench) -> None:
    workers = [bench.worker(Role.UNIFIED) for _ in range(6)]
    for worker in workers:
        worker.missteps["generate"] = Misstep("crash")
    await bench.start()
    status, _ = await bench.chat(SHORT)
    assert status == 502
    assert sum(worker.calls["reserve"] for worker in workers) == 3


# --- client errors and back-pressure are no faults ---------------------------------------------------------------


@pytest.mark.parametrize("leg", ["prefill", "generate"])
@pytest.mark.parametrize("how", ["refuse", "fail"])
async def test_a_workers_4xx_reaches_the_client_unchanged_and_is_not_retried(bench: Bench, leg: str, how: str) -> None:
    """F15, F08: refused on either leg, both sides are freed at once."""
    workers = await two_pairs(bench)
    for worker in workers:
        worker.missteps[leg] = Misstep(how, ErrorCode.INVALID_REQUEST, message="no chat template")
    status, answer = await bench.chat(LONG)
    assert status == 400
    assert answer["error"]["message"] == "no chat template"
    assert sum(worker.calls["reserve"] for worker in workers) == 1
    await bench.at_rest()


async def test_bad_requests_and_busy_answers_never_count_as_faults(bench: Bench) -> None:
    """F16."""
    _, decode = bench.pair()
    await bench.start()
    for _ in range(20):
        assert (await bench.chat("x" * 2000))[0] == 400
    decode.missteps["reserve"] = Misstep("refuse", ErrorCode.QUEUE_FULL)
    for _ in range(20):
        status, answer = await bench.chat(LONG)
        assert (status, answer["error"]["code"]) == (503, "queue_full")
    decode.missteps.clear()
    status, answer = await bench.chat(LONG)
    assert status == 200
    assert_whole(answer)
    assert "tandem_router_worker_faults_total{" not in await bench.metrics()


async def test_when_all_are_busy_the_client_is_told_to_come_back(bench: Bench) -> None:
    _, d1 = bench.pair()
    _, d2 = bench.pair()
    d1.missteps["reserve"] = d2.missteps["reserve"] = Misstep("refuse", ErrorCode.KV_FULL)
    await bench.start()
    body = {"model": MODEL, "messages": [{"role": "user", "content": LONG}]}
    async with bench.http.post("/v1/chat/completions", json=body) as answer:
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "2"
        assert (await answer.json())["error"]["code"] == "kv_full"
    assert (d1.calls["reserve"], d2.calls["reserve"]) == (1, 1)


async def test_a_busy_prefill_worker_sends_the_request_to_another(bench: Bench) -> None:
    p1, p2, _ = bench.worker(Role.PREFILL), bench.worker(Role.PREFILL), bench.worker(Role.DECODE)
    p1.missteps["prefill"] = p2.missteps["prefill"] = Misstep("refuse", ErrorCode.QUEUE_FULL, times=1)
    await bench.start()
    status, answer = await bench.chat(LONG)
    assert status == 200
    assert_whole(answer)
    assert (p1.calls["prefill"], p2.calls["prefill"]) == (1, 1)
    await bench.at_rest()


# --- after the first token: told in the stream ------------------------------------------------------------------


@pytest.mark.parametrize("how", ["crash", "fail", "hang", "garbage", "end"])
@pytest.mark.parametrize("text", [SHORT, LONG])
@pytest.mark.parametrize("after", [1, 3])
async def test_a_broken_answer_never_looks_complete(bench: Bench, how: str, text: str, after: int) -> None:
    """F32, F18: no invented finish reason, no [DONE], no repeated text; a whole answer is a gateway error. Of
    structured output nobody can be sure to go on exactly."""
    workers = await two_pairs(bench)
    for worker in workers:
        worker.missteps["generate"] = Misstep(how, after=after)
    as_json = {"response_format": {"type": "json_object"}}
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "stream": True, **as_json}
    async with bench.http.post("/v1/chat/completions", json=body) as answer:
        assert answer.status == 200
        events = events_of(await answer.text())
    error = json.loads(events[-1][1])["error"]
    assert error["type"] == "server_error"
    assert error["code"] == ("deadline_exceeded" if how == "hang" else "engine_failed")
    assert all(data != "[DONE]" for _, data in events)
    chunks = [json.loads(data) for _, data in events[:-1]]
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks)
    came = after + (1 if text == LONG else 0)
    assert text_of(events[:-1]) == "".join(PIECES[:came])
    status, whole = await bench.chat(text, **as_json)
    assert status in (502, 504)
    assert "choices" not in whole
    await bench.at_rest()
    assert 'outcome="failed"} 2.0' in await bench.metrics()


@pytest.mark.parametrize("body", [{}, {"response_format": {"type": "json_object"}}], ids=["gone on with", "anew"])
async def test_a_whole_answer_is_completed_elsewhere_wherever_it_broke(bench: Bench, body: dict) -> None:
    """Nothing of it has reached the client yet, so even what can't be gone on with can be begun anew."""
    _, d1, _, d2 = await two_pairs(bench)
    d1.missteps["generate"] = d2.missteps["generate"] = Misstep("crash", after=3, times=1)
    status, answer = await bench.chat(LONG, **body)
    assert status == 200
    assert_whole(answer)
    assert d1.calls["reserve"] + d2.calls["reserve"] == 2
    await bench.at_rest()


async def test_the_stock_client_raises_on_a_broken_stream(bench: Bench) -> None:
    _, decode = bench.pair()
    decode.missteps["generate"] = Misstep("crash", after=2)
    await bench.start()
    stream = await bench.openai.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": LONG}], stream=True
    )
    with pytest.raises(openai.APIError, match="the decode stage failed"):
        async for _ in stream:
            pass


async def test_a_hand_off_refused_after_the_first_token_ends_the_stream_with_an_error(bench: Bench) -> None:
    """F01: no token is made from KV that was not verified."""
    prefill, decode = bench.pair()
    prefill.missteps["prefill"] = Misstep("fail", ErrorCode.CHECKSUM_MISMATCH, after=1)
    prefill.pieces = decode.pieces = PIECES
    decode.missteps["generate"] = Misstep("hang")
    await bench.start()
    started = time.monotonic()
    body = {"model": MODEL, "messages": [{"role": "user", "content": LONG}], "stream": True}
    async with bench.http.post("/v1/chat/completions", json=body) as answer:
        events = events_of(await answer.text())
    assert text_of(events[:-1]) == PIECES[0]
    assert json.loads(events[-1][1])["error"]["code"] == "checksum_mismatch"
    assert time.monotonic() - started < DEADLINES.idle_s + 1
    await bench.at_rest()


async def test_a_prefill_worker_lost_after_its_kv_arrived_does_not_end_the_answer(bench: Bench) -> None:
    """F15 (b): the first token came, the word on the hand-off did not, decode has the KV."""
    prefill, _ = bench.pair()
    await bench.start()
    prefill.missteps["prefill"] = Misstep("crash", after=1)
    events = await bench.stream(LONG)
    assert text_of(events) == ANSWER
    timing = json.loads(events[-2][1])
    assert timing["handoff_bytes"] is None
    assert sum(part["seconds"] for part in timing["segments"]) == pytest.approx(timing["ttft_s"], abs=1e-9)
    await bench.at_rest()


async def test_a_prefill_worker_lost_before_its_kv_arrived_ends_the_stream_soon(bench: Bench) -> None:
    """F15 (c): killed mid-transfer; decode would wait for ever."""
    prefill, decode = bench.pair()
    prefill.missteps["prefill"] = Misstep("crash", after=1)
    decode.missteps["generate"] = Misstep("hang")
    await bench.start()
    started = time.monotonic()
    body = {"model": MODEL, "messages": [{"role": "user", "content": LONG}], "stream": True}
    async with bench.http.post("/v1/chat/completions", json=body) as answer:
        events = events_of(await answer.text())
    assert json.loads(events[-1][1])["error"]["code"] == "deadline_exceeded"
    assert time.monotonic() - started < DEADLINES.orphan_s + 1
    await bench.at_rest()


# --- time --------------------------------------------------------------------------------------------------------


async def test_a_slow_worker_within_its_deadlines_is_waited_for(bench: Bench) -> None:
    prefill, decode = bench.pair()
    prefill.missteps["prefill"] = Misstep("slow", seconds=DEADLINES.first_event_s / 4)
    decode.missteps["generate"] = Misstep("slow", seconds=DEADLINES.idle_s / 8)
    await bench.start()
    status, answer = await bench.chat(LONG)
    assert status == 200
    assert_whole(answer)
    assert "worker_faults_total{" not in await bench.metrics()


async def test_one_hanging_worker_does_not_slow_down_the_others(bench: Bench) -> None:
    """F18: met once, it is avoided for a while."""
    bad, good = bench.worker(Role.UNIFIED), bench.worker(Role.UNIFIED)
    bad.missteps["generate"] = Misstep("hang")
    await bench.start()
    only(bench, bad)
    await eventually(lambda: len(bench.router.tables.deployments[0].workers) == 1)
    assert (await bench.chat(SHORT))[0] == 504
    only(bench, bad, good)
    await eventually(lambda: len(bench.router.tables.deployments[0].workers) == 2)
    started = time.monotonic()
    for _ in range(5):
        assert (await bench.chat(SHORT))[0] == 200
    assert time.monotonic() - started < DEADLINES.first_event_s
    assert bad.calls["generate"] == 1


async def test_a_request_has_an_end_even_when_every_event_comes_in_time(bench: Bench) -> None:
    bench.deadlines = dataclasses.replace(DEADLINES, total_s=0.5)
    bench.worker(Role.UNIFIED, pieces=("a",) * 100)
    bench.workers[0].pace_s = 0.05
    await bench.start()
    status, answer = await bench.chat(SHORT)
    assert (status, answer["error"]["code"]) == (504, "deadline_exceeded")
    await bench.at_rest()


async def test_every_request_ends_while_workers_come_and_go(bench: Bench) -> None:
    """F18: joins and leaves under load; who leaves drains, so nothing fails."""
    bench.deadlines = PATIENT
    for _ in range(3):
        bench.pair()
    for worker in bench.workers:
        worker.pace_s = 0.005
    await bench.start()
    stop = asyncio.Event()

    async def churn() -> None:
        round_ = 0
        while not stop.is_set():
            leaving = round_ % 3
            bench.publish([w for index, w in enumerate(bench.workers) if index // 2 != leaving])
            round_ += 1
            await asyncio.sleep(0.02)

    churning = asyncio.create_task(churn())
    results = []
    for _ in range(10):
        texts = [LONG if index % 2 else SHORT for index in range(8)]
        results += await asyncio.gather(*(bench.chat(text) for text in texts))
    stop.set()
    await churning
    assert [status for status, _ in results] == [200] * 80
    await bench.at_rest()


async def test_no_request_goes_to_a_worker_that_left_the_table(bench: Bench) -> None:
    p1, d1, p2, d2 = await two_pairs(bench)
    only(bench, p2, d2)
    await eventually(lambda: len(bench.router.tables.deployments[0].workers) == 2)
    for _ in range(5):
        await bench.chat(LONG)
    assert not d1.calls
    assert not p1.calls


async def test_another_process_at_the_old_address_is_not_mistaken_for_the_worker(bench: Bench) -> None:
    """F10: names are no processes."""
    decode = bench.worker(Role.UNIFIED, "w1")
    await bench.start()
    decode.worker_id = "w2"
    status, _ = await bench.chat(SHORT)
    assert status == 502


async def test_load_spreads_evenly_after_much_went_wrong(bench: Bench) -> None:
    """F17: counts come from the live set, so nothing is left over."""
    first, second = bench.worker(Role.UNIFIED), bench.worker(Role.UNIFIED)
    bench.deadlines = PATIENT
    await bench.start(suspect_s=0.01, suspect_most_s=0.01)
    first.missteps["generate"] = Misstep("crash", times=20)
    for _ in range(20):
        await bench.chat("x" * 2000)
    await asyncio.gather(*(bench.chat(SHORT) for _ in range(30)))
    first.missteps.clear()
    await asyncio.sleep(0.05)
    assert bench.router.live.loads() == {}
    for number in range(20):  # one of them tries the first worker again
        await bench.chat(f"{SHORT} {number}")
    for worker in bench.workers:
        worker.calls.clear()
        worker.pace_s = 0.02
    await asyncio.gather(*(bench.chat(SHORT) for _ in range(40)))
    assert abs(first.calls["generate"] - second.calls["generate"]) <= 4
    await bench.at_rest()


async def test_a_worker_that_was_busy_when_it_was_tried_again_is_tried_by_the_next_request(bench: Bench) -> None:
    """Busy is no fault and no success: nobody waits until the trial would have told something."""
    first, _ = bench.worker(Role.UNIFIED), bench.worker(Role.UNIFIED)
    bench.deadlines = PATIENT
    await bench.start(suspect_s=0.01, suspect_most_s=0.01)
    fault = first.missteps["reserve"] = Misstep("crash", times=1)
    for number in range(100):
        if fault.times:
            assert (await bench.chat(f"{number} {SHORT}"))[0] == 200
    assert not fault.times
    first.missteps["reserve"] = Misstep("refuse", code=ErrorCode.KV_FULL)
    first.calls.clear()
    for number in range(40):
        assert (await bench.chat(f"{number} {SHORT}"))[0] == 200
    assert first.calls["reserve"] > 1


async def test_no_worker_is_called_without_the_clusters_token(bench: Bench) -> None:
    worker = bench.worker(Role.UNIFIED)
    await bench.start()
    url = f"http://127.0.0.1:{worker.route.http.port}{names.WORKER_RESERVE}"
    async with aiohttp.ClientSession() as session, session.post(url, data=b"{}") as answer:
        assert answer.status == 401
    assert (await bench.chat(SHORT))[0] == 200


def once(misstep: Misstep) -> Misstep:
    """Shared by several workers, it strikes whichever is asked first."""
    return dataclasses.replace(misstep, times=1)


def text_of(events: list[tuple[str | None, str]]) -> str:
    chunks = [json.loads(data) for name, data in events if name is None and data != "[DONE]"]
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])


async def test_a_worker_of_another_version_is_no_clients_fault(bench: Bench) -> None:
    """It can't read the router's message: another worker can, and alone it is a 502 and not a 400."""
    odd, good = bench.worker(Role.UNIFIED), bench.worker(Role.UNIFIED)
    odd.missteps["reserve"] = Misstep("refuse", code=ErrorCode.UNREADABLE)
    await bench.start()
    for _ in range(4):
        assert (await bench.chat(SHORT))[0] == 200
    good.missteps["reserve"] = Misstep("refuse", code=ErrorCode.UNREADABLE)
    assert (await bench.chat(SHORT))[0] == 502
    await bench.at_rest()
