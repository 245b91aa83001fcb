"""Limits of keys, through the whole router."""

from __future__ import annotations

import asyncio
import json

import msgspec
import openai
import pytest

from inference.contracts import auth
from inference.contracts.errors import ErrorCode
from inference.contracts.routing import ServingKeyEntry
from tests.inference.router.conftest import KEY, LONG, MODEL, SHORT, Bench, eventually
from tests.inference.router.scripted import PIECES, Misstep
from tests.inference.router.test_leaving import LeavingClient


def key(**limits: int | None) -> ServingKeyEntry:
    return ServingKeyEntry(key_id="k1", digest=auth.key_digest(KEY), **limits)


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

    assert bench.router.key_limits.requests("k1") == bench.router.key_limits.live("k1") == 0
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
    with pytest.raises(openai.BadRequestError) as caught:
        await bench.openai.completions.create(model=MODEL, prompt=["a", "b", "c"])
    assert caught.value.code == "request_larger_than_limit"
    assert bench.router.key_limits.requests("k1") == 0
    assert len((await bench.openai.completions.create(model=MODEL, prompt=["a", "b"])).choices) == 2


# -- tokens -------------------------------------------------------------------------------------------------------


def tokens_of(bench: Bench) -> int:
    return bench.router.key_limits.tokens("k1")


@pytest.mark.parametrize("text", [SHORT, LONG], ids=["read locally", "handed off"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_what_counts_is_what_usage_tells(bench: Bench, text: str, stream: bool) -> None:
    bench.pair()
    bench.keys = [key(tokens_per_minute=10_000)]
    await bench.start()
    if stream:
        events = await bench.stream(text, stream_options={"include_usage": True})
        usage = next(told for _, data in events if (told := json.loads(data).get("usage")))
    else:
        _, answer = await bench.chat(text)
        usage = answer["usage"]
    assert usage["total_tokens"] == len(text) + len(PIECES)
    await eventually(lambda: bench.router.key_limits.live("k1") == 0)
    assert tokens_of(bench) == usage["total_tokens"]


async def test_several_prompts_and_answers_count_together(bench: Bench) -> None:
    bench.pair()
    bench.keys = [key(tokens_per_minute=10_000)]
    await bench.start()
    answer = await bench.openai.completions.create(model=MODEL, prompt=["a", "bcd"])
    assert answer.usage is not None
    assert tokens_of(bench) == answer.usage.total_tokens == 4 + 2 * len(PIECES)


async def test_a_client_that_leaves_pays_for_what_was_read_and_written(bench: Bench) -> None:
    _, decode = bench.pair()
    decode.missteps["generate"] = Misstep("hang", after=3)
    bench.keys = [key(tokens_per_minute=10_000)]
    await bench.start()
    client = LeavingClient(bench)
    await client.ask(SHORT, stream=True)
    async with asyncio.timeout(5):
        await client.reader.readuntil(f'"content":"{PIECES[2]}"'.encode())
    await client.leave()
    await eventually(lambda: bench.router.key_limits.live("k1") == 0)
    assert tokens_of(bench) == len(SHORT) + 3
    await bench.at_rest()


async def test_a_stream_that_breaks_counts_as_far_as_it_came(bench: Bench) -> None:
    _, decode = bench.pair()
    decode.missteps["generate"] = Misstep("fail", after=2)
    bench.keys = [key(tokens_per_minute=10_000)]
    await bench.start()
    body = {"response_format": {"type": "json_object"}}  # which no other worker can go on with
    assert "error" in json.loads((await bench.stream(SHORT, **body))[-1][1])
    await eventually(lambda: bench.router.key_limits.live("k1") == 0)
    assert tokens_of(bench) == len(SHORT) + 2


@pytest.mark.parametrize("how", ["failed", "refused by the worker", "nobody free"])
async def test_an_answer_that_never_came_costs_no_tokens(bench: Bench, how: str) -> None:
    _, decode = bench.pair()
    decode.missteps = {
        "failed": {"generate": Misstep("fail", after=2)},
        "refused by the worker": {},
        "nobody free": {"reserve": Misstep("refuse", ErrorCode.KV_FULL)},
    }[how]
    bench.keys = [key(tokens_per_minute=10_000, requests_per_minute=100)]
    await bench.start()
    status, _ = await bench.chat(SHORT, **({"max_tokens": 5_000} if how == "refused by the worker" else {}))
    assert status == {"failed": 502, "refused by the worker": 400, "nobody free": 503}[how]
    assert tokens_of(bench) == 0
    assert bench.router.key_limits.requests("k1") == (1 if how == "failed" else 0)


async def test_too_many_tokens_in_a_minute_get_429_that_clients_understand(bench: Bench) -> None:
    bench.pair()
    bench.keys = [key(tokens_per_minute=30, requests_per_minute=9)]
    await bench.start()
    raw = bench.openai.completions.with_raw_response
    first = await raw.create(model=MODEL, prompt=[1] * 20)
    assert (first.headers["x-ratelimit-limit-tokens"], first.headers["x-ratelimit-remaining-tokens"]) == ("30", "10")
    assert first.headers["x-ratelimit-remaining-requests"] == "8"
    with pytest.raises(openai.RateLimitError) as caught:
        await raw.create(model=MODEL, prompt=[1] * 20)
    headers = caught.value.response.headers
    assert caught.value.code == "rate_limit_exceeded"
    assert "30 tokens in a minute, 2 are left, and the prompt has about 20" in caught.value.message
    assert headers["x-ratelimit-remaining-tokens"] == "2"
    assert 1 <= int(headers["Retry-After"]) <= int(headers["x-ratelimit-reset-tokens"].removesuffix("s")) <= 60
    assert headers["x-ratelimit-remaining-requests"] == "8", "what is refused is no request that counts"


async def test_a_prompt_that_the_limit_could_never_give_is_refused_for_good(bench: Bench) -> None:
    bench.pair()
    bench.keys = [key(tokens_per_minute=30)]
    await bench.start()
    with pytest.raises(openai.BadRequestError) as caught:
        await bench.openai.completions.create(model=MODEL, prompt=[1] * 31)
    assert caught.value.code == "request_larger_than_limit"
    assert "31 tokens of prompt, by estimate; this API key may use 30 in a minute" in caught.value.message
    assert "Retry-After" not in caught.value.response.headers
    assert tokens_of(bench) == 0


async def test_tokenising_uses_no_tokens(bench: Bench) -> None:
    bench.pair()
    bench.keys = [key(tokens_per_minute=30)]
    await bench.start()
    assert (await bench.chat("a prompt of 27 characters..", max_tokens=4))[0] == 200
    assert tokens_of(bench) == 31
    async with bench.http.post("/detokenize", json={"model": MODEL, "tokens": [1]}) as answer:
        assert answer.status != 429


async def test_a_header_that_is_wrong_costs_nothing(bench: Bench) -> None:
    bench.pair()
    bench.keys = [key(requests_per_minute=5)]
    await bench.start()
    bench.http.headers["X-Tandem-Ttft-Deadline-Ms"] = "soon"
    assert (await bench.chat(SHORT))[0] == 400
    assert bench.router.key_limits.requests("k1") == 0
