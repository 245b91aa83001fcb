"""What a client sees when everything works, and when it is its own fault."""

from __future__ import annotations

import json
import socket

import aiohttp
import msgspec
import openai
import pytest

from inference.contracts import auth, names
from inference.contracts.errors import ErrorCode
from inference.contracts.generation import TokenDelta
from inference.contracts.routing import ServingKeyEntry
from inference.contracts.states import PriorityClass, Role
from inference.router.openai.sampling import LARGEST
from inference.router.travel.outlet import Lane
from inference.router.travel.record import RequestRecord
from inference.router.travel.relay import Call, Relay
from tests.inference.router.conftest import KEY, LONG, MODEL, SHORT, Bench, events_of, eventually
from tests.inference.router.scripted import PIECES, SECRET, Misstep

ANSWER = "".join(PIECES)
ASK = [{"role": "user", "content": LONG}]


async def test_a_long_prompt_is_handed_over_and_a_short_one_read_by_decode(bench: Bench) -> None:
    prefill, decode = bench.pair()
    await bench.start()
    await bench.chat(LONG)
    assert prefill.calls["prefill"] == 1
    assert bench.fabric.bytes_received == 100 * len(LONG)
    await bench.chat(SHORT)
    assert prefill.calls["prefill"] == 1
    assert decode.calls["generate"] == 2
    assert bench.fabric.bytes_received == 100 * len(LONG)


async def test_only_uncached_tokens_decide_where_the_prompt_is_read(bench: Bench) -> None:
    prefill = bench.worker(Role.PREFILL)
    bench.worker(Role.DECODE, cached_tokens=len(LONG) - 3)
    await bench.start()
    status, answer = await bench.chat(LONG)
    assert status == 200
    assert prefill.calls["prefill"] == 0
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == len(LONG) - 3


async def test_after_a_hand_off_the_prefill_worker_says_what_was_cached(bench: Bench) -> None:
    bench.worker(Role.PREFILL, cached_tokens=7)
    bench.worker(Role.DECODE)
    await bench.start()
    _, answer = await bench.chat(LONG)
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 7


async def test_priority_and_salt_reach_both_workers(bench: Bench) -> None:
    prefill, decode = bench.pair()
    await bench.start()
    await bench.chat(LONG, priority=-3, cache_salt="tenant")
    for order in (decode.reservations[0], prefill.prefills[0]):
        assert (order.priority, order.cache_salt) == (-3, "tenant")


async def test_a_class_goes_before_whatever_clients_of_lower_ones_name(bench: Bench) -> None:
    """At workers, as in the queue; within a class the client's own number orders."""
    prefill, decode = bench.pair()
    await bench.start()

    def known() -> PriorityClass:
        return bench.router.tables.keyring.check(f"Bearer {KEY}", 0).priority_class

    for priority_class, named in (
        (PriorityClass.HIGH, LARGEST),
        (PriorityClass.STANDARD, -LARGEST),
        (PriorityClass.STANDARD, LARGEST),
        (PriorityClass.LOW, -LARGEST),
    ):
        bench.keys = [msgspec.structs.replace(bench.keys[0], priority_class=priority_class)]
        bench.publish()
        await eventually(lambda wanted=priority_class: known() is wanted)
        assert (await bench.chat(LONG, priority=named))[0] == 200
    for orders in (decode.reservations, prefill.prefills):
        priorities = [order.priority for order in orders]
        assert len(priorities) == 4
        assert priorities == sorted(set(priorities))


async def test_a_unified_worker_does_everything_itself(bench: Bench) -> None:
    bench.worker(Role.UNIFIED)
    await bench.start()
    _, answer = await bench.chat(LONG)
    assert answer["choices"][0]["message"]["content"] == ANSWER


@pytest.mark.parametrize("text", [LONG, SHORT])
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_exactly_so_many_tokens_as_asked_for(bench: Bench, limit: int, text: str) -> None:
    """F03."""
    bench.pair()
    await bench.start()
    status, answer = await bench.chat(text, max_tokens=limit)
    assert status == 200
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] == "".join(PIECES[:limit])
    assert answer["usage"]["completion_tokens"] == limit
    events = await bench.stream(text, max_tokens=limit, stream_options={"include_usage": True})
    chunks = [json.loads(data) for name, data in events if name is None and data != "[DONE]"]
    texts = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[:-1]]
    assert "".join(texts) == "".join(PIECES[:limit])
    assert chunks[-1]["usage"]["completion_tokens"] == limit
    await bench.at_rest()


async def test_an_answer_that_ends_with_its_first_token_frees_decode_at_once(bench: Bench) -> None:
    """F03: end-of-sequence as the first token."""
    bench.worker(Role.PREFILL, pieces=("!",))
    decode = bench.worker(Role.DECODE)
    await bench.start()
    status, answer = await bench.chat(LONG)
    assert (status, answer["choices"][0]["finish_reason"]) == (200, "stop")
    assert answer["usage"]["completion_tokens"] == 1
    await bench.at_rest()
    await eventually(lambda: decode.calls["release"] == 1)


async def test_decode_may_hear_first_that_there_is_no_hand_off(bench: Bench) -> None:
    """The first token ended the answer; decode's end of it overtakes the prefill worker's closing event."""
    prefill, decode = bench.worker(Role.PREFILL, pieces=("!",)), bench.worker(Role.DECODE)
    prefill.missteps["prefill"] = Misstep("slow", seconds=0.05)
    decode.missteps["generate"] = Misstep("fail", ErrorCode.TRANSFER_FAILED, seconds=0.08)
    await bench.start()
    for _ in range(3):
        status, answer = await bench.chat(LONG)
        assert (status, answer["choices"][0]["finish_reason"]) == (200, "stop")
    assert prefill.calls["prefill"] == 3
    await bench.at_rest()


async def test_text_that_is_held_back_is_not_lost(bench: Bench) -> None:
    """F04, F05: a first token without certain text sends nothing; what follows makes the text whole."""
    pieces = ("", "", "한글", "", " 🚲")
    bench.worker(Role.PREFILL, pieces=pieces)
    bench.worker(Role.DECODE, pieces=pieces)
    await bench.start()
    events = await bench.stream(LONG)
    chunks = [json.loads(data) for name, data in events if name is None and data != "[DONE]"]
    texts = [chunk["choices"][0]["delta"].get("content") for chunk in chunks]
    assert [text for text in texts if text] == ["한글", " 🚲"]
    timing = json.loads(next(data for name, data in events if name == "timings"))
    assert sum(part["seconds"] for part in timing["segments"]) == pytest.approx(timing["ttft_s"], abs=1e-9)
    _, whole = await bench.chat(LONG)
    assert whole["choices"][0]["message"]["content"] == "한글 🚲"
    assert whole["usage"]["completion_tokens"] == len(pieces)


@pytest.mark.parametrize("text", [LONG, SHORT])
async def test_stage_times_add_up_on_every_path(bench: Bench, text: str) -> None:
    bench.pair()
    await bench.start()
    events = await bench.stream(text)
    assert [name for name, _ in events[-2:]] == ["timings", None]
    streamed = json.loads(events[-2][1])
    headers = {names.TIMINGS_HEADER: "1"}
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}
    async with bench.http.post("/v1/chat/completions", json=body, headers=headers) as answer:
        whole = (await answer.json())["tandem"]
    for timing in (streamed, whole):
        assert sum(part["seconds"] for part in timing["segments"]) == pytest.approx(timing["ttft_s"], abs=1e-9)
        stages = {part["name"]: part["seconds"] for part in timing["segments"]}
        assert stages["prefill_queue"] == pytest.approx(0.001)
        assert stages["prefill"] == pytest.approx(0.002)
        assert timing["path"] == ("handoff" if text == LONG else "local")
        assert (timing["handoff_bytes"] is None) == (text == SHORT)
        assert timing["transfer_s"] == (None if text == SHORT else 0.001)
        assert (timing["decode_wait_s"] is None) == (text == SHORT)
        assert timing["ttft_s"] <= timing["e2e_s"]
        assert timing["completion_tokens"] == len(PIECES)
        assert timing["first_gap_s"] >= 0  # tokens that were read at once came at once


async def test_stage_times_are_only_for_those_who_ask(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    _, answer = await bench.chat()
    assert "tandem" not in answer
    body = {"model": MODEL, "messages": ASK, "stream": True}
    async with bench.http.post("/v1/chat/completions", json=body) as response:
        assert [name for name, _ in events_of(await response.text()) if name] == []


async def test_a_sane_request_id_is_kept_and_reaches_the_workers(bench: Bench) -> None:
    prefill, decode = bench.pair()
    await bench.start()
    body = {"model": MODEL, "messages": ASK}
    async with bench.http.post("/v1/chat/completions", json=body, headers={"X-Request-Id": "order-66"}) as answer:
        assert answer.headers["X-Request-Id"] == "order-66"
    assert set(prefill.request_ids + decode.request_ids) == {"order-66"}
    async with bench.http.get("/v1/models", headers={"X-Request-Id": "a" * 500}) as answer:
        assert answer.headers["X-Request-Id"].startswith("req-")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/nothing", "/health/live", "/metrics"])
async def test_every_answer_has_a_request_id(bench: Bench, path: str) -> None:
    await bench.start()
    async with bench.http.get(path) as answer:
        assert answer.headers["X-Request-Id"]
        assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_missing_seed_is_fixed_before_dispatch_for_both_workers(bench: Bench) -> None:
    prefill, decode = bench.pair()
    await bench.start()
    await bench.chat()
    await bench.chat(seed=42)
    seeds = [request.sampling.seed for request in prefill.prefills]
    assert seeds == [request.sampling.seed for request in decode.reservations]
    assert seeds[0] > 0
    assert seeds[1] == 42


async def test_without_a_limit_the_answer_is_clipped_to_what_fits(bench: Bench) -> None:
    prefill = bench.worker(Role.PREFILL)
    decode = bench.worker(Role.DECODE, context_length=len(LONG) + 3)
    await bench.start()
    status, answer = await bench.chat(LONG)
    assert (status, answer["usage"]["completion_tokens"]) == (200, 3)
    assert prefill.prefills[0].sampling.max_tokens == 3
    assert decode.reservations[0].clip_max_tokens
    status, answer = await bench.chat(LONG, max_tokens=4)
    assert status == 400
    assert not decode.reservations[1].clip_max_tokens


async def test_a_too_long_prompt_is_the_workers_word_passed_on(bench: Bench) -> None:
    _, decode = bench.pair()
    await bench.start()
    with pytest.raises(openai.BadRequestError) as caught:
        await bench.openai.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "x" * 2000}])
    assert caught.value.code == "context_length_exceeded"
    assert "2000" in caught.value.message
    assert "1000" in caught.value.message
    assert decode.calls["reserve"] == 1
    await bench.at_rest()


async def test_keys_are_needed_and_checked(bench: Bench) -> None:
    bench.pair()
    other = auth.new_serving_key()
    bench.keys.append(ServingKeyEntry(key_id="k2", digest=auth.key_digest(other), models=("another",)))
    await bench.start()
    for headers in ({"Authorization": ""}, {"Authorization": "Bearer sk-wrong"}):
        for call in (
            bench.http.get("/v1/models", headers=headers),
            bench.http.post("/v1/chat/completions", data=b"{", headers=headers),
        ):
            async with call as answer:
                assert answer.status == 401
                assert (await answer.json())["error"]["code"] == "invalid_api_key"
    headers = {"Authorization": f"Bearer {other}"}
    async with bench.http.post(
        "/v1/chat/completions", json={"model": MODEL, "messages": ASK}, headers=headers
    ) as answer:
        assert answer.status == 403
    async with bench.http.get("/v1/models", headers=headers) as answer:
        assert (await answer.json())["data"] == []


async def test_a_deployment_may_be_asked_for_by_its_own_name(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    status, answer = await bench.chat(model="chat")
    assert (status, answer["model"]) == (200, "chat")


async def test_malformed_and_too_large_bodies_are_refused_in_openais_shape(bench: Bench) -> None:
    bench.pair()
    await bench.start(max_body_bytes=10_000)
    async with bench.http.post("/v1/chat/completions", data=b"{nope") as answer:
        assert answer.status == 400
        error = (await answer.json())["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
    async with bench.http.post("/v1/chat/completions", data=b"x" * 20_000) as answer:
        assert answer.status == 413
        assert "10000" in (await answer.json())["error"]["message"]
    async with bench.http.get("/v1/chat/completions") as answer:
        assert answer.status == 405
        assert (await answer.json())["error"]["code"] == "method_not_allowed"


async def test_invalid_requests_reach_no_worker(bench: Bench) -> None:
    prefill, decode = bench.pair()
    await bench.start()
    for body in ({"n": 0}, {"temperature": 9}, {"tools": [{}]}, {"max_tokens": 0}):
        status, _ = await bench.chat(**body)
        assert status == 400
    assert not prefill.calls
    assert not decode.calls


@pytest.mark.parametrize(
    ("roles", "text", "missing"),
    [
        ((Role.PREFILL,), LONG, "No decode worker of 'chat' is ready."),
        ((Role.PREFILL,), SHORT, "No decode worker of 'chat' is ready."),
        ((Role.DECODE,), LONG, "No prefill worker of 'chat' is ready."),
        ((), SHORT, "No decode worker of 'chat' is ready."),
    ],
)
async def test_a_known_model_that_cannot_serve_now_is_503(
    bench: Bench, roles: tuple[Role, ...], text: str, missing: str
) -> None:
    """F31."""
    for role in roles:
        bench.worker(role)
    await bench.start()
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}
    async with bench.http.post("/v1/chat/completions", json=body) as answer:
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert (await answer.json())["error"]["message"] == missing
    await bench.at_rest()


async def test_without_prefill_workers_short_prompts_still_go_local(bench: Bench) -> None:
    bench.worker(Role.DECODE)
    await bench.start()
    status, _ = await bench.chat(SHORT)
    assert status == 200


async def test_workers_with_different_fingerprints_are_never_paired(bench: Bench) -> None:
    """F06."""
    old = bench.worker(Role.PREFILL, "old-prefill", fingerprint="old")
    new = bench.worker(Role.DECODE, "new-decode", fingerprint="new")
    await bench.start()
    status, answer = await bench.chat(LONG)
    assert (status, answer["error"]["message"].split(":")[0]) == (503, "No pair of 'chat' is ready")
    assert not old.calls
    matching = bench.worker(Role.PREFILL, "new-prefill", fingerprint="new")
    await matching.start()
    bench.publish()
    await eventually(lambda: len(bench.router.tables.deployments[0].workers) == 3)
    status, _ = await bench.chat(LONG)
    assert (status, old.calls["prefill"], matching.calls["prefill"]) == (200, 0, 1)
    assert new.calls["generate"] == 1


async def test_a_ticket_with_another_fingerprint_than_the_table_is_not_used(bench: Bench) -> None:
    prefill, decode = bench.pair()
    await bench.start()
    decode.fingerprint = "changed behind the table"
    status, _ = await bench.chat(LONG)
    assert status == 502
    assert prefill.calls["prefill"] == 0
    await bench.at_rest()


async def test_clients_learn_no_worker_addresses(bench: Bench) -> None:
    prefill, decode = bench.pair()
    prefill.missteps["prefill"] = Misstep("crash")
    await bench.start()
    seen = []
    for text in (LONG, SHORT):
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "stream": True}
        async with bench.http.post("/v1/chat/completions", json=body, headers={names.TIMINGS_HEADER: "1"}) as answer:
            seen.append(await answer.text() + str(answer.headers))
    await decode.stop()
    _, error = await bench.chat(SHORT)
    seen.append(json.dumps(error))
    for text in seen:
        assert f":{decode.route.http.port}" not in text
        assert f":{prefill.route.http.port}" not in text
        assert "127.0.0.1" not in text


async def test_health_tells_whether_there_are_tables(bench: Bench) -> None:
    await bench.start()
    for address in ("/health/live", "/health", "/health/ready", "/ready"):
        async with bench.http.get(address, headers={"Authorization": ""}) as answer:
            assert answer.status == 200


async def test_metrics_need_the_clusters_token(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    await bench.chat()
    for token in ("", f"Bearer {KEY}", auth.bearer(SECRET, auth.PURPOSE_WORKER_HTTP)):
        async with bench.http.get("/metrics", headers={"Authorization": token}) as answer:
            assert answer.status == 401
    text = await bench.metrics()
    assert 'tandem_router_requests_total{deployment="chat",outcome="completed"} 1.0' in text
    assert 'tandem_router_prefills_total{deployment="chat",path="handoff"} 1.0' in text
    assert 'tandem_router_in_flight{deployment="chat"} 0.0' in text


async def test_small_writes_are_sent_at_once(bench: Bench) -> None:
    """Nagle's algorithm would hold tokens back for tens of milliseconds."""
    bench.pair()
    await bench.start()
    seen = []
    original = aiohttp.web.StreamResponse.prepare

    async def spy(self: aiohttp.web.StreamResponse, request: aiohttp.web.BaseRequest) -> object:
        assert request.transport is not None
        sock = request.transport.get_extra_info("socket")
        seen.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return await original(self, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aiohttp.web.StreamResponse, "prepare", spy)
        await bench.stream()
    assert seen
    assert all(seen)


@pytest.mark.parametrize("after_text", [False, True])
async def test_a_bug_in_the_router_is_an_error_and_never_half_an_answer(bench: Bench, after_text: bool) -> None:
    bench.pair()
    await bench.start()

    async def broken(self: Relay, call: Call, lane: Lane, record: RequestRecord) -> None:
        if after_text:
            lane.send([TokenDelta(token_ids=(1,), text="Hi")])
            await lane.flush()
        raise RuntimeError("secret detail")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Relay, "answer", broken)
        body = {"model": MODEL, "messages": ASK, "stream": True}
        async with bench.http.post("/v1/chat/completions", json=body) as answer:
            assert answer.status == (200 if after_text else 500)
            text = await answer.text()
    assert (
        json.loads(text.splitlines()[-2 if after_text else -1].removeprefix("data: "))["error"]["code"]
        == "internal_error"
    )
    assert "secret detail" not in text
    assert "[DONE]" not in text
    assert 'outcome="failed"} 1.0' in await bench.metrics()


async def test_a_workers_param_reaches_the_client(bench: Bench) -> None:
    _, decode = bench.pair()
    decode.missteps["reserve"] = Misstep("refuse", ErrorCode.INVALID_REQUEST, message="no such token id")
    await bench.start()
    status, answer = await bench.chat()
    assert status == 400
    assert answer["error"] == {
        "message": "no such token id",
        "type": "invalid_request_error",
        "param": "max_tokens",
        "code": "invalid_request",
    }


async def test_during_a_rolling_change_only_workers_of_one_revision_pair(bench: Bench) -> None:
    """F06: old and new take requests side by side; every hand-off is between two of the same fingerprint."""
    old = bench.worker(Role.PREFILL, revision=1), bench.worker(Role.DECODE, revision=1)
    new = (
        bench.worker(Role.PREFILL, revision=2, fingerprint="fp-2"),
        bench.worker(Role.DECODE, revision=2, fingerprint="fp-2"),
    )
    await bench.start()
    for number in range(12):
        assert (await bench.chat(f"{LONG} {number}"))[0] == 200

    assert old[0].calls["prefill"] == old[1].calls["generate"] > 0
    assert new[0].calls["prefill"] == new[1].calls["generate"] > 0
    assert {request.fingerprint for request in new[0].prefills} == {"fp-2"}
    assert {request.fingerprint for request in old[0].prefills} == {"fp"}
