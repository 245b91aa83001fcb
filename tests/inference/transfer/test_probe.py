from __future__ import annotations

import asyncio
import contextlib
import io
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from inference.contracts.codec import decode
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address, LinkReport
from inference.process.tls import NodeTls
from inference.testing.tls import make_certificates
from inference.transfer import wire
from inference.transfer.handshake import greet_receiver
from inference.transfer.link import Link
from inference.transfer.probe import listen, measure
from inference.transfer.probe_kv import BYTES_PER_TOKEN, INFO, prompt_of, ticket_id

SECRET = "of-this-cluster"
SIZE = 4 * BYTES_PER_TOKEN


@asynccontextmanager
async def listener(size: int = SIZE, tls: NodeTls | None = None) -> AsyncIterator[tuple[Address, asyncio.Task[None]]]:
    said = io.StringIO()
    task = asyncio.create_task(
        listen("127.0.0.1", "127.0.0.1", measurement="m", size_bytes=size, secret=SECRET, say=said, tls=tls)
    )
    async with asyncio.timeout(5):
        while not said.getvalue():
            await asyncio.sleep(0.005)
    address = decode(said.getvalue(), LinkReport).address
    assert address is not None
    try:
        yield address, task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_the_sender_measures_and_the_listener_ends_after_it() -> None:
    async with listener() as (address, task):
        result = await measure(address, measurement="m", size_bytes=SIZE, secret=SECRET)
        assert result.bytes_per_s is not None
        assert result.latency_s is not None
        assert result.bytes_per_s > 0
        assert 0 < result.latency_s < 1
        async with asyncio.timeout(5):
            await task


async def test_the_link_is_measured_over_tls_where_workers_speak_it(tmp_path: Path) -> None:
    tls = make_certificates(tmp_path).node_tls()
    async with listener(tls=tls) as (address, task):
        with pytest.raises(TandemError, match="set TANDEM_WORKER_TLS_CA_FILE where the call comes from"):
            await measure(address, measurement="m", size_bytes=SIZE, secret=SECRET)
        result = await measure(address, measurement="m", size_bytes=SIZE, secret=SECRET, tls=tls)
        assert result.bytes_per_s
        async with asyncio.timeout(5):
            await task


async def test_without_the_secret_nothing_is_measured() -> None:
    async with listener() as (address, task):
        with pytest.raises(TandemError) as refused:
            await measure(address, measurement="m", size_bytes=SIZE, secret="of-another")
        assert refused.value.code is ErrorCode.UNAUTHENTICATED
        assert not task.done()


@pytest.mark.parametrize(
    "ticket",
    [
        ticket_id("another", 2, 1),
        ticket_id("m", 2, SIZE // BYTES_PER_TOKEN + 1),
        ticket_id("m", 2, 0),
        "m/2/-1",
        "m/2/x",
        "m",
        "",
    ],
)
async def test_only_tickets_of_this_measurement_and_of_its_size_are_taken(ticket: str) -> None:
    async with listener() as (address, _):
        link = await Link.connect(address)
        await greet_receiver(link, SECRET)
        await link.send(wire.Open(ticket_id=ticket, fingerprint=INFO.fingerprint, tokens=1, prompt_digest=0))
        async with asyncio.timeout(5):
            header, _ = await link.receive()
        assert isinstance(header, wire.Refused)
        assert header.code == ErrorCode.TICKET_UNKNOWN
        link.close()


async def test_a_peer_that_is_cut_off_in_the_middle_ends_the_measurement() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.close()

    server = await asyncio.start_server(cut, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(TandemError, match="the listening node at"):
            await measure(Address(host="127.0.0.1", port=port), measurement="m", size_bytes=SIZE, secret=SECRET)


async def test_a_peer_that_speaks_something_else_is_told_apart() -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" + struct.pack("!8x"))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(http, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(TandemError, match="does not speak the KV transfer protocol"):
            await measure(Address(host="127.0.0.1", port=port), measurement="m", size_bytes=SIZE, secret=SECRET)


def test_a_ticket_carries_its_size() -> None:
    assert prompt_of(ticket_id("m", 1, 3)) == [0, 0, 0]
