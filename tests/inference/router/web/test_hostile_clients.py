"""What is sent over raw sockets to get past a router, or to hold it up, ends with that connection alone."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from inference.contracts import names
from tests.inference.router.conftest import DEADLINES, KEY, LONG, MODEL, Bench

BODY = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}).encode()
SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + KEY.encode() + b"\r\n\r\n"


def head(*lines: bytes) -> bytes:
    start = b"POST /v1/chat/completions HTTP/1.1"
    authorization = b"Authorization: Bearer " + KEY.encode()
    return b"\r\n".join([start, b"Host: x", authorization, *lines, b"", b""])


def length(octets: int) -> bytes:
    return b"Content-Length: %d" % octets


CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)

#: Requests whose end two servers could see in two places. Each is followed by another request.
AMBIGUOUS = {
    "two lengths": head(length(len(BODY)), length(len(BODY) + len(SMUGGLED))) + BODY,
    "one length twice": head(length(len(BODY)), length(len(BODY))) + BODY,
    "a list of lengths": head(b"Content-Length: %d, %d" % (len(BODY), len(BODY))) + BODY,
    "both framings": head(length(len(BODY)), CHUNKED) + CHUNKS,
    "both framings, turned": head(CHUNKED, length(4)) + CHUNKS,
    "a length with a sign": head(b"Content-Length: +%d" % len(BODY)) + BODY,
    "a length below zero": head(b"Content-Length: -1") + BODY,
    "a length in hexadecimal": head(b"Content-Length: 0x%x" % len(BODY)) + BODY,
    "a length with a space in it": head(b"Content-Length: 1 2") + BODY,
    "a space before the colon": head(b"Content-Length : %d" % len(BODY)) + BODY,
    "chunked but not last": head(b"Transfer-Encoding: chunked, identity") + CHUNKS,
    "a framing that is none": head(b"Transfer-Encoding: xchunked") + CHUNKS,
    "chunked twice": head(CHUNKED, CHUNKED) + CHUNKS,
    "a folded header": head(b"Transfer-Encoding:\r\n chunked") + CHUNKS,
    "a chunk of a size below zero": head(CHUNKED) + b"-1\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk of a size that is no number": head(CHUNKED) + b"0x10\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk that is longer than it says": head(CHUNKED) + b"1\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a null in a header": head(b"X-Odd: a\x00b", length(len(BODY))) + BODY,
    "a bare carriage return": head(b"X-Odd: a\rContent-Length: 0", length(len(BODY))) + BODY,
}


async def answers(bench: Bench, *parts: bytes, within_s: float = 5.0, pause_s: float = 0.0) -> bytes:
    """All that comes back until the router closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.router.port)
    told = b""
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        async with asyncio.timeout(within_s):
            while read := await reader.read(65536):
                told += read
    except ConnectionError:
        pass
    finally:
        writer.close()
    return told


def error_in(told: bytes) -> tuple[int, str]:
    """Status and code of the one error that `told` is, in OpenAI's shape, with a request id."""
    assert told.count(b"HTTP/1.") == 1, told[:500]
    head, _, body = told.partition(b"\r\n\r\n")
    lines = [line.partition(b": ") for line in head.split(b"\r\n")[1:]]
    headers = {name.lower(): value for name, _, value in lines}
    assert headers[b"content-type"].startswith(b"application/json")
    assert headers[b"x-request-id"].startswith(b"req-")
    assert headers[b"server"] == b"tandem"
    assert int(headers[b"content-length"]) == len(body)
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    return int(head.split(b" ")[1]), error["code"]


@pytest.mark.parametrize("kind", AMBIGUOUS)
async def test_a_request_with_two_possible_ends_is_refused_and_nothing_after_it_is_read(
    bench: Bench, kind: str
) -> None:
    bench.pair()
    bench.deadlines = dataclasses.replace(DEADLINES, keepalive_s=1.0, body_s=0.5)
    await bench.start()
    assert error_in(await answers(bench, AMBIGUOUS[kind] + SMUGGLED)) == (400, "malformed_request")
    assert (await bench.chat())[0] == 200


GET = b"GET /v1/models HTTP/1.1\r\n"
HOST = b"Host: x\r\n"
NO_HTTP = {
    "no host": GET + b"\r\n",
    "two hosts": GET + HOST + HOST + b"\r\n",
    "a method that is none": b"FOO /v1/models HTTP/1.1\r\n" + HOST + b"\r\n",
    "a method in small letters": b"get /v1/models HTTP/1.1\r\n" + HOST + b"\r\n",
    "a space in the address": b"GET /v1/mod els HTTP/1.1\r\n" + HOST + b"\r\n",
    "an address that is none": b"GET http://[::1/ HTTP/1.1\r\n" + HOST + b"\r\n",
    "a version to come": b"GET / HTTP/3.7\r\n" + HOST + b"\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "noise": bytes(range(32)) + b"\r\n\r\n",
    "control characters in a header": GET + HOST + b"X-Request-Id: a\x0bb\r\n\r\n",
    "two types of a body": head(length(2), b"Content-Type: a/b", b"Content-Type: c/d") + b"{}",
    "a compression that is not offered": head(length(2), b"Content-Encoding: br") + b"{}",
    "a body that is not compressed as it says": head(length(2), b"Content-Encoding: gzip") + b"{}",
}


@pytest.mark.parametrize("kind", NO_HTTP)
async def test_what_is_no_http_is_refused_in_openais_shape_and_the_connection_closed(bench: Bench, kind: str) -> None:
    await bench.start()
    told = await answers(bench, NO_HTTP[kind] + SMUGGLED)
    assert error_in(told) == (400, "malformed_request")
    assert b"Brotli" not in told  # nor anything else of how the router is built
    assert 'refusals_total{code="malformed_request",status="400"} 1.0' in await bench.metrics()


async def test_noise_after_a_request_ends_the_connection_but_not_the_request(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    told = await answers(bench, head(length(len(BODY))) + BODY, NO_HTTP["noise"] + SMUGGLED, pause_s=0.1)
    first, _, rest = told.partition(b"HTTP/1.0 ")
    assert first.startswith(b"HTTP/1.1 200")
    assert error_in(b"HTTP/1.0 " + rest) == (400, "malformed_request")


@pytest.mark.parametrize("chunk", [b"-1\r\nx", b"zz\r\nx", b"3\r\nabcdef\r\n", b"3\rab"])
@pytest.mark.parametrize("before", [(), (b"2\r\n{}\r\n",), (b"2\r\n{}\r\n", b"2\r\n{}\r\n")])
async def test_a_body_that_goes_wrong_on_its_way_is_refused_at_once(
    bench: Bench, chunk: bytes, before: tuple[bytes, ...]
) -> None:
    prefill, decode = bench.pair()
    bench.deadlines = dataclasses.replace(DEADLINES, body_s=600.0)
    await bench.start()
    told = await answers(bench, head(CHUNKED), *before, chunk + SMUGGLED, pause_s=0.05)
    assert error_in(told) == (400, "malformed_request")
    assert b"\r\nConnection: close\r\n" in told
    assert not prefill.calls
    assert not decode.calls
    assert 'refusals_total{code="malformed_request",status="400"} 1.0' in await bench.metrics()


async def test_a_body_that_goes_wrong_behind_another_request_is_refused_in_its_turn(bench: Bench) -> None:
    _, decode = bench.pair()
    decode.pace_s = 0.05
    bench.deadlines = dataclasses.replace(DEADLINES, body_s=600.0)
    await bench.start()
    asked = head(length(len(BODY))) + BODY
    told = await answers(bench, asked + head(CHUNKED), b"zz\r\nx" + SMUGGLED, pause_s=0.1, within_s=10)
    first, _, rest = told.partition(b"HTTP/1.1 400 ")
    assert first.startswith(b"HTTP/1.1 200")
    assert error_in(b"HTTP/1.1 400 " + rest) == (400, "malformed_request")


async def test_whose_body_goes_wrong_after_he_was_refused_is_told_why_he_was(bench: Bench) -> None:
    await bench.start()
    unknown = head(CHUNKED).replace(KEY.encode(), b"sk-wrong")
    told = await answers(bench, unknown, b"zz\r\nx" + SMUGGLED, pause_s=0.1)
    assert error_in(told) == (401, "invalid_api_key")


async def test_who_goes_on_sending_a_body_that_went_wrong_still_reads_why(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    told = await answers(bench, head(CHUNKED), b"zz\r\nx", *[b"a" * 10_000] * 12, pause_s=0.01)
    assert error_in(told) == (400, "malformed_request")


@pytest.mark.parametrize(
    ("start", "status", "code"),
    [
        (b"PUT /v1/models", 405, "method_not_allowed"),
        (b"OPTIONS /v1/chat/completions", 405, "method_not_allowed"),
        (b"PROPFIND /health/ready", 405, "method_not_allowed"),
        (b"GET /nothing", 404, "unknown_url"),
        (b"OPTIONS *", 404, "unknown_url"),
        (b"CONNECT example.org:443", 404, "unknown_url"),
        (b"GET /" + b"a" * 10_000, 404, "unknown_url"),
    ],
)
async def test_what_is_not_offered_is_refused_in_openais_shape(
    bench: Bench, start: bytes, status: int, code: str
) -> None:
    await bench.start()
    told = await answers(bench, start + b" HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n")
    assert error_in(told) == (status, code)
    assert (b"\r\nAllow: " in told) == (status == 405)
    assert len(told) < 1000


@pytest.mark.parametrize("address", [b"/v1/models", b"/nothing"])
async def test_an_expectation_that_can_not_be_met_is_refused_in_openais_shape(bench: Bench, address: bytes) -> None:
    await bench.start()
    lines = b" HTTP/1.1\r\nConnection: close\r\nExpect: tea\r\n"
    told = await answers(bench, b"GET " + address + lines + HOST + b"\r\n")
    assert error_in(told) == (417, "expectation_failed")


async def test_a_client_that_asks_first_is_told_to_send_its_body(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    lines = (length(len(BODY)), b"Expect: 100-continue", b"Connection: close")
    told = await answers(bench, head(*lines), BODY, pause_s=0.05)
    assert told.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
async def test_another_protocol_that_is_offered_is_not_taken(bench: Bench, protocol: bytes) -> None:
    bench.deadlines = dataclasses.replace(DEADLINES, keepalive_s=0.3)
    await bench.start()
    lines = b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\nSec-WebSocket-Key: eA==\r\n\r\n"
    assert error_in(await answers(bench, GET + HOST + lines)) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    "part",
    [b"", b"POST /v1/chat", head()[:-2], b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"],
    ids=["nothing", "half a line", "no end of the head", "a request and nothing more"],
)
async def test_a_connection_without_a_whole_request_is_closed_in_time(bench: Bench, part: bytes) -> None:
    bench.deadlines = dataclasses.replace(DEADLINES, keepalive_s=0.4)
    await bench.start()
    told = await answers(bench, part)
    assert told.count(b"HTTP/1.1 200") == (b"GET" in part)


async def test_headers_that_trickle_in_do_not_keep_a_connection(bench: Bench) -> None:
    bench.deadlines = dataclasses.replace(DEADLINES, keepalive_s=0.4)
    await bench.start()
    lines = [b"GET /health/live HTTP/1.1\r\n", *(b"X-%d: 1\r\n" % number for number in range(40)), b"\r\n"]
    assert b"200" not in await answers(bench, *lines, pause_s=0.05)


@pytest.mark.parametrize("framing", [length(len(BODY)), CHUNKED])
async def test_a_body_that_does_not_come_is_given_up(bench: Bench, framing: bytes) -> None:
    prefill, decode = bench.pair()
    bench.deadlines = dataclasses.replace(DEADLINES, body_s=0.3)
    await bench.start()
    told = await answers(bench, head(framing), b"", within_s=10)
    assert error_in(told) == (408, "request_timeout")
    assert b"\r\nConnection: close\r\n" in told
    assert not prefill.calls
    assert not decode.calls


async def test_a_chunked_body_has_the_same_limit(bench: Bench) -> None:
    bench.pair()
    bench.deadlines = dataclasses.replace(DEADLINES, keepalive_s=0.4)
    await bench.start(max_body_bytes=1000)
    told = await answers(bench, head(CHUNKED) + b"7d0\r\n" + b"x" * 2000 + b"\r\n0\r\n\r\n", within_s=10)
    assert error_in(told) == (413, "request_too_large")
    assert b"\r\nConnection: close\r\n" in told


@pytest.mark.parametrize(
    ("request_head", "expected"),
    [
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (431, "headers_too_large")),
        (b"GET / HTTP/1.1\r\nX-Long: " + b"a" * 20_000 + b"\r\n\r\n", (431, "headers_too_large")),
        (
            b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(1000)) + b"\r\n",
            (400, "malformed_request"),
        ),
    ],
    ids=["line", "header", "headers"],
)
async def test_a_head_beyond_measure_is_refused(bench: Bench, request_head: bytes, expected: tuple[int, str]) -> None:
    await bench.start()
    told = await answers(bench, request_head)
    assert error_in(told) == expected
    assert b"aaa" not in told


async def test_a_client_that_goes_on_sending_still_reads_why_it_was_refused(bench: Bench) -> None:
    """Its connection is not broken under its hands while the answer is on its way."""
    await bench.start()
    told = await answers(bench, b"GET / HTTP/1.1\r\nX-Long: ", *[b"a" * 10_000] * 12, pause_s=0.01)
    assert error_in(told) == (431, "headers_too_large")


async def test_nothing_internal_that_a_client_sends_reaches_a_worker(bench: Bench) -> None:
    """F33: no field or header names a host that is dialled."""
    touched = asyncio.Event()
    listener = await asyncio.start_server(lambda reader, writer: touched.set(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    prefill, decode = bench.pair()
    await bench.start()
    target = {"host": "127.0.0.1", "port": port}
    fields = {
        "kv_transfer_params": {"remote_host": "127.0.0.1", "remote_port": port, "do_remote_prefill": True},
        "bootstrap_host": "127.0.0.1",
        "bootstrap_port": port,
        "bootstrap_room": 1,
        "target": target,
        "ticket_id": "t",
        "fingerprint": "other",
        "disagg_prefill_dp_rank": 1,
        "data_parallel_rank": 1,
    }
    headers = {
        "x-prefiller-host-port": f"127.0.0.1:{port}",
        "x-prefiller-url": f"http://127.0.0.1:{port}",
        "x-data-parallel-host-port": f"169.254.169.254:{port}",
        "x-gateway-destination-endpoint": f"127.0.0.1:{port}",
        "x-worker-id": "other",
        "X-Forwarded-Host": f"127.0.0.1:{port}",
        "Forwarded": f"host=127.0.0.1:{port}",
    }
    body = {"model": MODEL, "messages": [{"role": "user", "content": LONG}], **fields}
    async with bench.http.post("/v1/chat/completions", json=body, headers=headers) as answer:
        assert answer.status == 200
    (reserved,), (read,) = decode.reservations, prefill.prefills
    assert (read.target, read.fingerprint) == (decode.route.transfer, decode.fingerprint)
    assert read.ticket_id != "t"
    assert reserved.request_id == read.request_id
    for path in (names.WORKER_RESERVE, names.WORKER_PREFILL, names.WORKER_STATUS, names.WORKER_TOKENIZE):
        async with bench.http.post(path, json=body) as answer:
            assert answer.status == 404
    assert not touched.is_set()
    listener.close()
