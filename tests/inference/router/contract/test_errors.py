"""What goes wrong, as the official client tells its users: its exceptions, stable codes, its own retries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import openai
import pytest

from inference.contracts import auth
from inference.contracts.errors import ErrorCode
from inference.contracts.routing import ServingKeyEntry
from inference.contracts.states import Role
from tests.inference.router.conftest import LONG, MODEL, PATIENT, SHORT, Bench
from tests.inference.router.scripted import Misstep


def ask(text: str = SHORT, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}


@pytest.mark.parametrize(
    ("fields", "kind", "status", "code", "param"),
    [
        ({"temperature": 3}, openai.BadRequestError, 400, "invalid_request", "temperature"),
        ({"functions": [{"name": "f"}]}, openai.BadRequestError, 400, "unsupported_parameter", "functions"),
        ({"max_tokens": 5000}, openai.BadRequestError, 400, "context_length_exceeded", "max_tokens"),
        ({"model": "gpt-9"}, openai.NotFoundError, 404, "model_not_found", "model"),
    ],
)
async def test_what_the_client_did_wrong(
    bench: Bench, fields: dict[str, Any], kind: type[openai.APIStatusError], status: int, code: str, param: str
) -> None:
    bench.pair()
    await bench.start()
    for stream in (False, True):
        with pytest.raises(kind) as caught:
            await bench.openai.chat.completions.create(**ask(**fields, stream=stream) | fields)
        error = caught.value
        assert (error.status_code, error.code, error.param, error.type) == (
            status,
            code,
            param,
            "invalid_request_error",
        )
        assert error.request_id == error.response.headers["x-request-id"]
    await bench.at_rest()


async def test_keys_that_are_wrong_or_not_for_this_model(bench: Bench) -> None:
    bench.pair()
    other = auth.new_serving_key()
    bench.keys.append(ServingKeyEntry(key_id="k2", digest=auth.key_digest(other), models=("another",)))
    await bench.start()
    with pytest.raises(openai.AuthenticationError) as unknown:
        await bench.openai.with_options(api_key="sk-wrong").chat.completions.create(**ask())
    with pytest.raises(openai.PermissionDeniedError) as denied:
        await bench.openai.with_options(api_key=other).chat.completions.create(**ask())
    assert (unknown.value.code, denied.value.code) == ("invalid_api_key", "model_not_allowed")
    assert "sk-wrong" not in str(unknown.value)


@pytest.mark.parametrize(
    ("misstep", "status", "code"),
    [
        (Misstep("refuse", ErrorCode.KV_FULL), 503, "kv_full"),
        (Misstep("fail", ErrorCode.ENGINE_FAILED), 502, "engine_failed"),
        (Misstep("crash"), 502, "engine_failed"),
        (Misstep("hang"), 504, "deadline_exceeded"),
    ],
    ids=["busy", "failed", "crashed", "silent"],
)
async def test_what_workers_did_wrong(bench: Bench, misstep: Misstep, status: int, code: str) -> None:
    _, decode = bench.pair()
    decode.missteps["reserve" if misstep.how == "refuse" else "generate"] = misstep
    bench.deadlines = dataclasses.replace(bench.deadlines, first_event_s=0.2)
    await bench.start()
    with pytest.raises(openai.InternalServerError) as caught:
        await bench.openai.chat.completions.create(**ask())
    error = caught.value
    assert (error.status_code, error.code, error.type) == (status, code, "server_error")
    assert ("retry-after" in error.response.headers) == (status == 503)
    await bench.at_rest()


async def test_a_stream_that_breaks_raises_where_it_breaks_and_has_no_end(bench: Bench) -> None:
    """F32: with several answers nobody can go on; what came until then is not taken for the whole."""
    worker = bench.worker(Role.UNIFIED)
    worker.missteps["generate"] = Misstep("fail", ErrorCode.ENGINE_FAILED, after=3)
    await bench.start()
    seen: list[Any] = []
    stream = await bench.openai.chat.completions.create(**ask(stream=True, n=2))

    async def collect() -> None:
        async for chunk in stream:
            seen.append(chunk)  # noqa: PERF401 - what came before the error is looked at

    with pytest.raises(openai.APIError) as caught:
        await collect()
    assert (caught.value.code, caught.value.type) == ("engine_failed", "server_error")
    assert any(choice.delta.content for chunk in seen for choice in chunk.choices)
    assert not any(choice.finish_reason for chunk in seen for choice in chunk.choices)
    async with bench.openai.chat.completions.stream(**ask(n=2)) as helper:
        with pytest.raises(openai.APIError, match="could not be completed"):
            await helper.get_final_completion()
    await bench.at_rest()


async def test_a_client_that_waits_no_longer_leaves_nothing_behind(bench: Bench) -> None:
    prefill, _ = bench.pair()
    prefill.missteps["prefill"] = Misstep("hang")
    bench.deadlines = PATIENT
    await bench.start()
    with pytest.raises(openai.APITimeoutError):
        await bench.openai.with_options(timeout=0.3).chat.completions.create(**ask(LONG))
    await bench.at_rest()


async def test_a_router_that_is_not_there_is_no_answer(bench: Bench) -> None:
    await bench.start()
    client = bench.openai
    await bench.router.stop()
    with pytest.raises(openai.APIConnectionError):
        await client.models.list()


# -- retries of the client itself -------------------------------------------------------------------------------


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], list[Callable[[], object]]]:
    """How long the client waits before each retry, and what is to happen meanwhile; it waits in no time."""
    seen: list[float] = []
    meanwhile: list[Callable[[], object]] = []

    async def sleep(seconds: float) -> None:
        seen.append(seconds)
        for act in meanwhile:
            act()

    monkeypatch.setattr("openai._base_client.anyio.sleep", sleep)
    return seen, meanwhile


Waits = tuple[list[float], list[Callable[[], object]]]


async def test_the_client_comes_again_when_it_was_told_to(bench: Bench, waits: Waits) -> None:
    _, decode = bench.pair()
    decode.missteps["reserve"] = Misstep("refuse", ErrorCode.KV_FULL)
    await bench.start()
    seen, meanwhile = waits
    meanwhile.append(decode.missteps.clear)
    raw = await bench.client(max_retries=2).chat.completions.with_raw_response.create(**ask())
    assert raw.retries_taken == 1
    assert raw.parse().choices[0].finish_reason == "stop"
    (waited,) = seen
    assert waited == int(waited) >= 1, "the whole seconds of Retry-After, and no guess of the client's own"


async def test_a_key_that_asked_too_much_is_told_when_to_come_again(bench: Bench, waits: Waits) -> None:
    bench.pair()
    bench.keys[0] = msgspec.structs.replace(bench.keys[0], requests_per_minute=1)
    await bench.start()
    await bench.openai.chat.completions.create(**ask())
    with pytest.raises(openai.RateLimitError) as caught:
        await bench.client(max_retries=2).chat.completions.create(**ask())
    assert (caught.value.code, caught.value.type) == ("rate_limit_exceeded", "rate_limit_error")
    seen, _ = waits
    assert len(seen) == 2
    assert all(50 <= waited <= 60 for waited in seen)


async def test_the_client_does_not_repeat_what_it_did_wrong(bench: Bench, waits: Waits) -> None:
    bench.pair()
    await bench.start()
    for fields in ({"temperature": 3}, {"model": "gpt-9"}):
        with pytest.raises(openai.APIStatusError):
            await bench.client(max_retries=2).chat.completions.create(**ask() | fields)
    assert waits[0] == []
