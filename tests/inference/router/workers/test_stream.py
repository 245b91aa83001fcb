"""Connections, and the streams read from them, against a server that writes exactly what a test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from inference.contracts import codec
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import (
    Finished,
    GenerateRequest,
    StreamEvent,
    StreamFailed,
    TokenDelta,
    WorkerTimings,
)
from inference.contracts.reports import Address
from inference.contracts.routing import WorkerRoute
from inference.contracts.states import FinishReason, PrefillPath, Role
from inference.process.tasks import Background
from inference.router.config import Deadlines
from inference.router.turns import Turns
from inference.router.workers.client import WorkerClient
from inference.router.workers.failures import WorkerLost
from inference.router.workers.stream import EventStream

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TOKEN = TokenDelta(token_ids=(7,), text="a")
END = Finished(
    reason=FinishReason.STOP, text="", prompt_tokens=1, cached_tokens=0, completion_tokens=1, timings=WorkerTimings()
)
ORDER = GenerateRequest(request_id="r1", ticket_id="t1", path=PrefillPath.LOCAL)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def line(event: StreamEvent) -> bytes:
    return codec.encode(event) + b"\n"


class Peer:
    """A worker that writes what it is told. requests: what it read, one entry for each connection."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.asked = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.requests.append(b"")
        number = len(self.requests) - 1
        while data := await reader.read(65536):
            self.requests[number] += data
            self.asked.set()
        writer.close()

    def write(self, data: bytes) -> None:
        self.writers[-1].write(data)


class Reader:
    """What a stream told."""

    def __init__(self) -> None:
        self.told: list[list[StreamEvent] | TandemError] = []
        self.news = asyncio.Event()

    def take(self, told: list[StreamEvent] | TandemError) -> None:
        self.told.append(told)
        self.news.set()

    @property
    def events(self) -> list[StreamEvent]:
        return [event for told in self.told if isinstance(told, list) for event in told]

    async def until(self, holds: Callable[[Reader], object]) -> None:
        async with asyncio.timeout(5):
            while not holds(self):
                self.news.clear()
                await self.news.wait()

    async def error(self) -> TandemError:
        await self.until(lambda reader: reader.told and isinstance(reader.told[-1], TandemError))
        error = self.told[-1]
        assert isinstance(error, TandemError)
        return error


class Rig:
    """A worker, the router's client of it, and its route."""

    def __init__(self, peer: Peer, client: WorkerClient, route: WorkerRoute) -> None:
        self.peer, self.client, self.route = peer, client, route

    async def call(self) -> tuple[EventStream, Reader]:
        """A generate call that has reached the worker."""
        self.peer.asked.clear()
        stream, reader = self.client.generate(self.route, ORDER), Reader()
        stream.begin(reader.take)
        async with asyncio.timeout(5):
            await self.peer.asked.wait()
        return stream, reader


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    peer, background = Peer(), Background()
    client = WorkerClient("secret", Deadlines(settle_s=0.05, connect_s=2.0), background, Turns())
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    route = WorkerRoute(
        worker_id="w", incarnation="1", pool_id="p", node_id="n", role=Role.DECODE, transfer=None, fingerprint="f",
        http=Address(host="127.0.0.1", port=port),
    )  # fmt: skip
    async with server:
        yield Rig(peer, client, route)
        await client.close()
        await background.close(1.0)
        for writer in peer.writers:
            with contextlib.suppress(ConnectionError):
                writer.close()
                await writer.wait_closed()


async def test_what_one_read_holds_comes_in_one_piece(rig: Rig) -> None:
    _, reader = await rig.call()
    rig.peer.write(HEAD + chunk(line(TOKEN)) + chunk(line(TOKEN)) + chunk(line(END)) + b"0\r\n\r\n")
    await reader.until(lambda seen: seen.told)
    assert reader.told == [[TOKEN, TOKEN, END]]


async def test_an_event_may_come_in_pieces_of_any_size(rig: Rig) -> None:
    _, reader = await rig.call()
    for octet in HEAD + chunk(line(TOKEN) + line(END)) + b"0\r\n\r\n":
        rig.peer.write(bytes([octet]))
        await asyncio.sleep(0)
    await reader.until(lambda seen: seen.events[-1:] == [END])
    assert reader.events == [TOKEN, END]


async def test_a_connection_is_used_again_once_its_answer_is_whole(rig: Rig) -> None:
    for _ in range(3):
        stream, reader = await rig.call()
        rig.peer.write(HEAD + chunk(line(END)) + b"0\r\n\r\n")
        await reader.until(lambda seen: seen.events)
        stream.close()
    assert len(rig.peer.requests) == 1
    assert rig.peer.requests[0].count(b"POST /worker/generate") == 3


async def test_the_end_of_the_http_answer_may_come_a_little_later(rig: Rig) -> None:
    stream, reader = await rig.call()
    rig.peer.write(HEAD + chunk(line(END)))
    await reader.until(lambda seen: seen.events)
    stream.close()
    rig.peer.write(b"0\r\n\r\n")
    await asyncio.sleep(0.02)
    await rig.call()
    assert len(rig.peer.requests) == 1


async def test_a_worker_that_does_not_end_its_answer_loses_the_connection(rig: Rig) -> None:
    stream, reader = await rig.call()
    rig.peer.write(HEAD + chunk(line(END)))
    await reader.until(lambda seen: seen.events)
    stream.close()
    await asyncio.sleep(0.15)
    await rig.call()
    assert len(rig.peer.requests) == 2
    assert reader.told == [[END]]


async def test_a_stream_that_is_closed_early_is_cut_and_tells_nothing_more(rig: Rig) -> None:
    stream, reader = await rig.call()
    rig.peer.write(HEAD + chunk(line(TOKEN)))
    await reader.until(lambda seen: seen.events)
    stream.close()
    with contextlib.suppress(ConnectionError):
        rig.peer.write(chunk(line(TOKEN)))
    await asyncio.sleep(0.02)
    assert reader.told == [[TOKEN]]
    await rig.call()
    assert len(rig.peer.requests) == 2


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (HEAD + chunk(line(TOKEN)) + b"0\r\n\r\n", "ended before the answer did"),
        (HEAD + chunk(line(TOKEN) + b'{"type":"token"}\n'), "token_ids"),
        (HEAD + chunk(line(TOKEN)) + b"zz\r\n", "Invalid character in chunk size"),
        (HEAD + chunk(line(TOKEN)) + chunk(b"x" * (1024 * 1024 + 1)), "a line of more than"),
    ],
)
async def test_a_stream_that_makes_no_sense_is_a_lost_worker_after_what_came_before(
    rig: Rig, written: bytes, said: str
) -> None:
    _, reader = await rig.call()
    rig.peer.write(written)
    error = await reader.error()
    assert isinstance(error, WorkerLost)
    assert said in error.message
    assert reader.events in ([TOKEN], [])
    assert reader.events == [TOKEN] or b"zz" in written  # what no longer is HTTP is not read for events


async def test_a_connection_that_breaks_is_a_lost_worker(rig: Rig) -> None:
    _, reader = await rig.call()
    rig.peer.write(HEAD + chunk(line(TOKEN)))
    await reader.until(lambda seen: seen.events)
    rig.peer.writers[-1].transport.abort()
    assert isinstance(await reader.error(), WorkerLost)


async def test_a_refusal_tells_its_code(rig: Rig) -> None:
    _, reader = await rig.call()
    body = b'{"code":"ticket_unknown","message":"no such ticket"}'
    rig.peer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    error = await reader.error()
    assert (error.code, error.message) == (ErrorCode.TICKET_UNKNOWN, "no such ticket")


async def test_a_failure_that_is_told_is_an_event(rig: Rig) -> None:
    failed = StreamFailed(code="engine_failed", message="out of memory")
    _, reader = await rig.call()
    rig.peer.write(HEAD + chunk(line(TOKEN) + line(failed)) + b"0\r\n\r\n")
    await reader.until(lambda seen: seen.told)
    assert reader.told == [[TOKEN, failed]]


async def test_a_worker_that_closes_after_its_answer_is_dialled_anew(rig: Rig) -> None:
    _, reader = await rig.call()
    rig.peer.write(HEAD.replace(b"chunked", b"chunked\r\nConnection: close") + chunk(line(END)) + b"0\r\n\r\n")
    await reader.until(lambda seen: seen.events)
    await rig.call()
    assert len(rig.peer.requests) == 2


async def test_a_second_answer_to_one_call_ends_the_connection(rig: Rig) -> None:
    _, reader = await rig.call()
    whole = HEAD + chunk(line(END)) + b"0\r\n\r\n"
    rig.peer.write(whole + whole)
    await reader.until(lambda seen: seen.events)
    await rig.call()
    assert reader.told == [[END]]
    assert len(rig.peer.requests) == 2


async def test_a_paused_connection_is_read_again_when_it_is_used_again(rig: Rig) -> None:
    stream, reader = await rig.call()
    take = reader.take
    reader.take = lambda told: (take(told), stream.pause())[0]  # type: ignore[method-assign]
    stream.close()
    stream = rig.client.generate(rig.route, ORDER)
    rig.peer.asked.clear()
    stream.begin(lambda told: (take(told), stream.pause())[0])
    await rig.peer.asked.wait()
    rig.peer.write(HEAD + chunk(line(TOKEN) + line(END)) + b"0\r\n\r\n")
    await reader.until(lambda seen: seen.events)
    _, again = await rig.call()
    rig.peer.write(HEAD + chunk(line(END)) + b"0\r\n\r\n")
    await again.until(lambda seen: seen.events)


async def test_nobody_at_the_address_is_a_lost_worker() -> None:
    background = Background()
    client = WorkerClient("secret", Deadlines(), background, Turns())
    route = WorkerRoute(
        worker_id="w", incarnation="1", pool_id="p", node_id="n", role=Role.DECODE, transfer=None, fingerprint="f",
        http=Address(host="127.0.0.1", port=9),
    )  # fmt: skip
    reader = Reader()
    client.generate(route, ORDER).begin(reader.take)
    assert isinstance(await reader.error(), WorkerLost)
    with pytest.raises(WorkerLost):
        await client.status(route)
    await background.close(1.0)
    await client.close()
