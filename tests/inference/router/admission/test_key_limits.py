"""How much one key may ask."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack

import msgspec
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts import auth, names
from inference.contracts.errors import ErrorCode
from inference.contracts.routing import ServingKeyEntry
from inference.router.admission.key_limits import WINDOW_S, KeyLimits, Standing
from inference.router.errors import ApiError
from tests.inference.router.conftest import KEY, LONG, MODEL, SHORT, Bench, eventually
from tests.inference.router.scripted import Misstep
from tests.inference.router.test_leaving import LeavingClient

NOW = 1_000.0


def key(**limits: int | None) -> ServingKeyEntry:
    return ServingKeyEntry(key_id="k1", digest=auth.key_digest(KEY), **limits)


def refusal_of(limits: KeyLimits, entry: ServingKeyEntry, now: float) -> ApiError:
    with pytest.raises(ApiError) as caught, limits.admit(entry, now):
        pass
    assert caught.value.status == 429
    return caught.value


def test_a_rate_is_of_any_minute_and_says_when_there_is_room() -> None:
    limits, entry = KeyLimits(2), key(requests_per_minute=2)
    for at in (NOW, NOW + 10):
        with limits.admit(entry, at):
            pass

    assert refusal_of(limits, entry, NOW + 20).retry_after_s == 40
    with limits.admit(entry, NOW + WINDOW_S):
        pass
    assert refusal_of(limits, entry, NOW + WINDOW_S).retry_after_s == 10


def test_a_limit_that_was_lowered_waits_for_as_many_as_are_too_many() -> None:
    limits = KeyLimits(2)
    for at in range(4):
        with limits.admit(key(requests_per_minute=4), NOW + at):
            pass

    assert refusal_of(limits, key(requests_per_minute=2), NOW + 10).retry_after_s == 52


def test_what_is_refused_uses_up_nothing() -> None:
    limits, entry = KeyLimits(2), key(requests_per_minute=1)
    for _ in range(20):
        with limits.admit(entry, NOW) as admission:
            admission.refused = True
    with limits.admit(entry, NOW):
        pass
    for _ in range(20):
        refusal_of(limits, entry, NOW + 1)

    assert limits.recent("k1") == 1
    with limits.admit(entry, NOW + WINDOW_S):
        pass


def test_requests_at_one_time_are_those_that_run() -> None:
    limits, entry = KeyLimits(7), key(max_concurrent=2)
    with ExitStack() as running:
        running.enter_context(limits.admit(entry, NOW))
        running.enter_context(limits.admit(entry, NOW))
        assert refusal_of(limits, entry, NOW).retry_after_s == 7
        with limits.admit(msgspec.structs.replace(entry, key_id="another"), NOW):
            pass
    with limits.admit(entry, NOW):
        pass
    assert limits.live("k1") == 0


def test_two_secrets_of_one_key_share_its_limits() -> None:
    limits, entry = KeyLimits(2), key(max_concurrent=1)
    with limits.admit(entry, NOW):
        refusal_of(limits, msgspec.structs.replace(entry, digest="of the old secret"), NOW)


def test_a_key_learns_how_it_stands() -> None:
    limits, entry = KeyLimits(2), key(requests_per_minute=3)
    assert limits.standing(key(), NOW) is None
    assert limits.standing(entry, NOW) == Standing(limit=3, remaining=3, reset_s=0.0)
    for at in (NOW, NOW + 10):
        with limits.admit(entry, at):
            pass
    assert limits.standing(entry, NOW + 20) == Standing(limit=3, remaining=1, reset_s=50.0)
    assert limits.standing(key(requests_per_minute=1), NOW + 20) == Standing(limit=1, remaining=0, reset_s=50.0)
    assert limits.standing(entry, NOW + 75) == Standing(limit=3, remaining=3, reset_s=0.0)


def test_what_is_old_is_forgotten_also_of_keys_that_nobody_uses() -> None:
    limits = KeyLimits(2)
    with limits.admit(key(requests_per_minute=5), NOW):
        pass
    limits.forget_old(NOW + WINDOW_S)

    assert not limits._recent


@given(st.lists(st.tuples(st.integers(0, 30 * 64), st.booleans()), max_size=60), st.integers(1, 5))
def test_no_minute_ever_has_more_than_the_limit(steps: list[tuple[int, bool]], limit: int) -> None:
    """Pauses are in 64ths of a second, which floats hold exactly."""
    limits, entry, now, kept = KeyLimits(2), key(requests_per_minute=limit), NOW, []
    for pause, refused in steps:
        now += pause / 64
        if sum(at > now - WINDOW_S for at in kept) == limit:
            wait = refusal_of(limits, entry, now).retry_after_s
            assert wait is not None
            assert sum(at > now + wait - WINDOW_S for at in kept) < limit
            continue
        with limits.admit(entry, now) as admission:
            admission.refused = refused
        if not refused:
            kept.append(now)


# -- in a router ------------------------------------------------------------------------------------------------


async def test_too_many_requests_in_a_minute_get_429_that_clients_understand(bench: Bench) -> None:
    bench.pair()
    bench.keys = [key(requests_per_minute=2)]
    await bench.start()
    for _ in range(2):
        assert (await bench.chat(SHORT))[0] == 200

    with pytest.raises(openai.RateLimitError) as caught:
        await bench.openai.chat.completions.create(model="smol", messages=[{"role": "user", "content": "x"}])
    assert caught.value.code == "rate_limit_exceeded"
    assert 1 <= int(caught.value.response.headers["Retry-After"]) <= 60
    assert (await bench.http.get("/v1/models")).status == 200


@pytest.mark.parametrize(
    "wrong",
    [{"model": "nobody"}, {"messages": []}, {"temperature": "hot"}, {"max_tokens": 5_000}],
    ids=["unknown model", "malformed", "mistyped", "refused by the worker"],
)
async def test_a_rejected_request_uses_no_quota(bench: Bench, wrong: dict[str, object]) -> None:
    """F17: and it leaves nothing running."""
    bench.pair()
    bench.keys = [key(requests_per_minute=1, max_concurrent=1)]
    await bench.start()
    for _ in range(20):
        status, _ = await bench.chat(SHORT, **wrong)
        assert status in (400, 404)

    assert bench.router.key_limits.recent("k1") == bench.router.key_limits.live("k1") == 0
    assert (await bench.chat(SHORT))[0] == 200


async def test_nobody_being_free_uses_no_quota(bench: Bench) -> None:
    _, decode = bench.pair()
    decode.missteps["reserve"] = Misstep("refuse", ErrorCode.KV_FULL)
    bench.keys = [key(requests_per_minute=1)]
    await bench.start()
    status, _ = await bench.chat(SHORT)

    assert status in (429, 503)
    decode.missteps.clear()
    assert (await bench.chat(SHORT))[0] == 200


async def test_aborted_streams_timeouts_and_faults_give_their_places_back(bench: Bench) -> None:
    """F17: limit 2; aborted streams, time-outs, malformed requests; then two at a time still work."""
    prefill, decode = bench.pair()
    bench.keys = [key(max_concurrent=2)]
    bench.limits = type(bench.limits)(suspect_s=0.01)
    await bench.start()

    prefill.missteps["prefill"] = Misstep("hang")
    for _ in range(10):
        client = LeavingClient(bench)
        await client.ask(LONG, stream=True)
        await eventually(lambda: bench.router.key_limits.live("k1") == 1)
        await client.leave()
        await eventually(lambda: bench.router.key_limits.live("k1") == 0)
    prefill.missteps.clear()
    decode.missteps["generate"] = Misstep("crash", after=2)
    for _ in range(5):
        assert (await bench.chat(SHORT))[0] >= 500
    decode.missteps.clear()
    for _ in range(20):
        assert (await bench.chat(SHORT, messages=None))[0] == 400

    assert bench.router.key_limits.live("k1") == 0
    answers = await asyncio.gather(bench.chat(SHORT), bench.chat(SHORT))
    assert [status for status, _ in answers] == [200, 200]
    await bench.at_rest()


async def test_one_too_many_at_one_time_is_refused_and_harms_nobody(bench: Bench) -> None:
    _, decode = bench.pair()
    decode.pace_s = 0.05
    bench.keys = [key(max_concurrent=1)]
    await bench.start()
    running = asyncio.create_task(bench.chat(SHORT))
    await eventually(lambda: bench.router.key_limits.live("k1") == 1)

    async with bench.http.post(
        "/v1/chat/completions", json={"model": "smol", "messages": [{"role": "user", "content": "x"}]}
    ) as refused:
        assert refused.status == 429
        assert int(refused.headers["Retry-After"]) >= 1
        assert (await refused.json())["error"] == {
            "message": "This API key may have 1 requests at one time, and they are running.",
            "type": "rate_limit_error",
            "param": None,
            "code": "concurrency_limit_exceeded",
        }
    assert (await running)[0] == 200


async def test_a_changed_limit_holds_from_the_next_request(bench: Bench) -> None:
    bench.pair()
    bench.keys = [key(requests_per_minute=1)]
    await bench.start()
    assert (await bench.chat(SHORT))[0] == 200
    assert (await bench.chat(SHORT))[0] == 429
    bench.keys = [key(requests_per_minute=5)]
    bench.publish()
    await eventually(lambda: bench.router.tables.keyring.check(f"Bearer {KEY}", 0).requests_per_minute == 5)

    assert (await bench.chat(SHORT))[0] == 200


async def test_a_scoped_key_sees_and_calls_its_models_only(bench: Bench) -> None:
    bench.pair()
    bench.keys = [key()]
    await bench.start()
    assert [entry["id"] for entry in (await (await bench.http.get("/v1/models")).json())["data"]] == ["smol"]
    bench.keys = [msgspec.structs.replace(key(requests_per_minute=1), models=("another",))]
    bench.publish()
    await eventually(lambda: bench.router.tables.keyring.check(f"Bearer {KEY}", 0).models)

    assert (await (await bench.http.get("/v1/models")).json())["data"] == []
    for _ in range(3):
        status, body = await bench.chat(SHORT)
        assert (status, body["error"]["code"]) == (403, "model_not_allowed")


# -- when a key was last used -------------------------------------------------------------------------------------


async def test_the_last_use_of_a_key_is_told(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    before = int(time.time())
    await bench.chat(SHORT)
    await bench.router.key_use.write()

    told = bench.redis.hgetall(names.KEY_USE_KEY)
    assert list(told) == [b"k1"]
    assert before <= int(told[b"k1"]) <= time.time()
    assert bench.router.key_use._unsent == {}


async def test_a_use_that_redis_missed_is_told_later(bench_of_its_own: Bench) -> None:
    bench = bench_of_its_own
    bench.pair()
    await bench.start()
    bench.server.stop()
    assert (await bench.chat(SHORT))[0] == 200
    await bench.router.key_use.write()
    assert "k1" in bench.router.key_use._unsent

    bench.server.start()
    await bench.router.key_use.write()
    assert bench.redis.hgetall(names.KEY_USE_KEY)


async def test_every_answer_tells_how_the_key_stands(bench: Bench) -> None:
    """Through the official client, as its users read headers; a refusal has the same, and when to come again."""
    bench.pair()
    bench.keys[0] = msgspec.structs.replace(bench.keys[0], requests_per_minute=2)
    await bench.start()
    ask = {"model": MODEL, "messages": [{"role": "user", "content": SHORT}]}
    raw = bench.openai.chat.completions.with_raw_response
    told = [(await raw.create(**ask, stream=stream)).headers for stream in (False, True)]
    assert [headers["x-ratelimit-remaining-requests"] for headers in told] == ["1", "0"]
    with pytest.raises(openai.RateLimitError) as caught:
        await raw.create(**ask)
    refused = caught.value.response.headers
    assert (refused["x-ratelimit-limit-requests"], refused["x-ratelimit-remaining-requests"]) == ("2", "0")
    assert 1 <= int(refused["Retry-After"]) <= int(refused["x-ratelimit-reset-requests"].removesuffix("s")) <= 60
    async with bench.http.get("/v1/models") as answer:
        assert "x-ratelimit-limit-requests" not in answer.headers


async def test_of_several_prompts_that_are_too_many_none_is_used_up(bench: Bench) -> None:
    bench.pair()
    bench.keys[0] = msgspec.structs.replace(bench.keys[0], requests_per_minute=2)
    await bench.start()
    with pytest.raises(openai.RateLimitError):
        await bench.openai.completions.create(model=MODEL, prompt=["a", "b", "c"])
    assert bench.router.key_limits.recent("k1") == 0
    assert len((await bench.openai.completions.create(model=MODEL, prompt=["a", "b"])).choices) == 2
