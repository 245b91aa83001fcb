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
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        async with asyncio.timeout(within_s):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("kind", AMBIGUOUS)
async def test_a_request_with_two_possible_ends_is_refused_and_nothing_after_it_is_read(
    bench: Bench, kind: str
) -> None:
    bench.pair()
    bench.deadlines = dataclasses.replace(DEADLINES, keepalive_s=1.0, body_s=0.5)
    await bench.start()
    told = await answers(bench, AMBIGUOUS[kind] + SMUGGLED)
    assert told.count(b"HTTP/1.") <= 1
    assert not told or told.startswith(b"HTTP/1.1 400") or told.startswith(b"HTTP/1.0 400"), told[:200]
    assert b'"object":"list"' not in told
    assert (await bench.chat())[0] == 200


async def test_two_plain_requests_in_one_write_are_two(bench: Bench) -> None:
    bench.pair()
    bench.deadlines = dataclasses.replace(DEADLINES, keepalive_s=0.5)
    await bench.start()
    told = await answers(bench, head(length(len(BODY))) + BODY + head(CHUNKED) + CHUNKS)
    assert told.count(b"HTTP/1.1 200") == 2


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
    assert told.startswith(b"HTTP/1.1 408")
    assert b'"code":"request_timeout"' in told
    assert not prefill.calls
    assert not decode.calls


async def test_a_chunked_body_has_the_same_limit(bench: Bench) -> None:
    bench.pair()
    bench.deadlines = dataclasses.replace(DEADLINES, keepalive_s=0.4)
    await bench.start(max_body_bytes=1000)
    told = await answers(bench, head(CHUNKED) + b"7d0\r\n" + b"x" * 2000 + b"\r\n0\r\n\r\n", within_s=10)
    assert told.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nX-Long: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(1000)) + b"\r\n",
    ],
    ids=["line", "header", "headers"],
)
async def test_a_head_beyond_measure_is_refused(bench: Bench, request_head: bytes) -> None:
    await bench.start()
    assert (await answers(bench, request_head)).split(b" ")[1] == b"400"


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
