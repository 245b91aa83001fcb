"""Requests that wait for room, and those that can't: through the whole router, with workers that are full."""

from __future__ import annotations

import asyncio
import dataclasses
import time

from inference.contracts import auth, names
from inference.contracts.errors import ErrorCode
from inference.contracts.routing import ServingKeyEntry
from inference.contracts.states import PriorityClass, Role
from tests.inference.router.conftest import LONG, MODEL, PATIENT, SHORT, Bench, eventually
from tests.inference.router.scripted import Misstep
from tests.inference.router.test_faults import assert_whole

OTHER_KEY = auth.new_serving_key()
FULL = Misstep("refuse", ErrorCode.QUEUE_FULL)


async def patient(bench: Bench, **limits: object) -> Bench:
    bench.deadlines = PATIENT
    bench.limits = dataclasses.replace(bench.limits, queue_s=20.0)
    return await bench.start(**limits)


async def ask_with(bench: Bench, key: str, text: str) -> int:
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}
    headers = {"Authorization": f"Bearer {key}"}
    async with bench.http.post("/v1/chat/completions", json=body, headers=headers) as answer:
        return answer.status


def waiting(bench: Bench) -> int:
    return len(bench.router.rooms.of("chat"))


async def test_a_request_waits_until_a_worker_has_room(bench: Bench) -> None:
    worker = bench.worker(Role.UNIFIED)
    worker.missteps["reserve"] = FULL
    await patient(bench)
    bench.http.headers[names.TIMINGS_HEADER] = "1"
    asked = asyncio.create_task(bench.chat(SHORT))
    await eventually(lambda: waiting(bench) == 1)
    assert not bench.router.live.loads(), "who waits holds nothing"
    worker.missteps.clear()
    status, answer = await asked
    assert status == 200
    assert_whole(answer)
    assert answer["tandem"]["segments"][1]["name"] == "queue"
    assert "tandem_router_worker_faults_total{" not in await bench.metrics()
    await bench.at_rest()


async def test_not_all_of_many_busy_workers_are_asked_in_vain(bench: Bench) -> None:
    workers = [bench.worker(Role.UNIFIED) for _ in range(12)]
    for worker in workers:
        worker.missteps["reserve"] = FULL
    await bench.start()
    assert (await bench.chat(SHORT))[0] == 503
    assert sum(worker.calls["reserve"] for worker in workers) == 8
    await bench.at_rest()


async def test_nobody_overtakes_those_that_wait_and_keys_take_turns(bench: Bench) -> None:
    worker = bench.worker(Role.UNIFIED)
    worker.missteps["reserve"] = FULL
    bench.keys.append(ServingKeyEntry(key_id="k2", digest=auth.key_digest(OTHER_KEY)))
    await patient(bench)
    many = [asyncio.create_task(bench.chat(f"many {number}")) for number in range(4)]
    await eventually(lambda: waiting(bench) == 4)
    late = asyncio.create_task(ask_with(bench, OTHER_KEY, "other"))
    await eventually(lambda: waiting(bench) == 5)
    worker.reservations.clear()
    worker.missteps.clear()
    assert await late == 200
    assert {status for status, _ in await asyncio.gather(*many)} == {200}
    served = [request.prompt.messages[0].content for request in worker.reservations]
    assert served.index("other") <= 2, "its key had its turn before the others of the first key"
    await bench.at_rest()


async def test_a_key_of_a_higher_class_goes_before_those_that_wait(bench: Bench) -> None:
    worker = bench.worker(Role.UNIFIED)
    worker.missteps["reserve"] = FULL
    high = ServingKeyEntry(key_id="k2", digest=auth.key_digest(OTHER_KEY), priority_class=PriorityClass.HIGH)
    bench.keys.append(high)
    await patient(bench)
    earlier = [asyncio.create_task(bench.chat(f"standard {number}")) for number in range(3)]
    await eventually(lambda: waiting(bench) == 3)
    later = asyncio.create_task(ask_with(bench, OTHER_KEY, "high"))
    await eventually(lambda: waiting(bench) == 4)
    worker.reservations.clear()
    worker.missteps.clear()
    assert await later == 200
    assert {status for status, _ in await asyncio.gather(*earlier)} == {200}
    served = [request.prompt.messages[0].content for request in worker.reservations]
    assert served.index("high") <= 1, "at most the one that was called before it came has been let by"
    await bench.at_rest()


async def test_a_client_that_leaves_the_queue_leaves_nothing_behind(bench: Bench) -> None:
    worker = bench.worker(Role.UNIFIED)
    worker.missteps["reserve"] = FULL
    await patient(bench)
    leaving = asyncio.create_task(bench.chat(SHORT))
    await eventually(lambda: waiting(bench) == 1)
    leaving.cancel()
    await eventually(lambda: waiting(bench) == 0)
    await bench.at_rest()
    assert bench.router.key_limits.live("k1") == 0


async def test_too_many_that_wait_are_refused_with_advice(bench: Bench) -> None:
    worker = bench.worker(Role.UNIFIED)
    worker.missteps["reserve"] = FULL
    await patient(bench, queue_requests=4)
    first = [asyncio.create_task(bench.chat(SHORT)) for _ in range(2)]
    await eventually(lambda: waiting(bench) == 2)
    status, answer = await bench.chat(SHORT)
    assert (status, answer["error"]["code"]) == (429, "too_many_waiting")
    worker.missteps.clear()
    assert {status for status, _ in await asyncio.gather(*first)} == {200}
    await bench.at_rest()


async def test_the_advice_is_by_requests_that_gave_room_back_and_not_by_refused_ones(bench: Bench) -> None:
    """Else it would be the shorter the more are refused."""
    worker = bench.worker(Role.UNIFIED)
    worker.missteps["reserve"] = FULL
    await bench.start(retry_after_s=7)
    assert [status for status, _ in [await bench.chat(SHORT) for _ in range(4)]] == [503] * 4
    assert bench.router.rooms.of("chat").advice_s == 7
    await bench.at_rest()


async def test_nobody_waits_beyond_the_time_at_which_he_wants_his_first_token(bench: Bench) -> None:
    worker = bench.worker(Role.UNIFIED)
    worker.missteps["reserve"] = FULL
    await patient(bench)
    bench.http.headers[names.TTFT_DEADLINE_HEADER] = "200"
    began = time.monotonic()
    status, answer = await bench.chat(SHORT)
    assert (status, answer["error"]["code"]) == (503, "deadline_unreachable")
    assert time.monotonic() - began < bench.limits.queue_s / 2
    assert waiting(bench) == 0
    await bench.at_rest()


async def test_a_deadline_that_can_not_be_kept_is_refused_at_once(bench: Bench) -> None:
    prefill, _ = bench.pair()
    await bench.start()
    assert (await bench.chat(LONG))[0] == 200  # its pace is measured
    body = {"model": MODEL, "messages": [{"role": "user", "content": LONG * 10}]}

    async def ask(milliseconds: str) -> tuple[int, dict, str | None]:
        headers = {names.TTFT_DEADLINE_HEADER: milliseconds}
        async with bench.http.post("/v1/chat/completions", json=body, headers=headers) as answer:
            return answer.status, await answer.json(), answer.headers.get("Retry-After")

    status, answer, advice = await ask("0.5")
    assert (status, answer["error"]["code"]) == (503, "deadline_unreachable")
    assert advice is not None
    assert int(advice) >= 1
    assert prefill.calls["prefill"] == 1
    assert (await ask("60000"))[0] == 200
    for nonsense in ("soon", "-1", "nan", "0"):
        status, answer, _ = await ask(nonsense)
        assert (status, answer["error"]["param"]) == (400, names.TTFT_DEADLINE_HEADER.lower())
    await bench.at_rest()
