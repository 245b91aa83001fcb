"""Claims about KV hand-offs over TLS: what arrives, and that nobody falls back to sending in clear."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.process.tls import NodeTls
from inference.testing.tampered_link import TamperedLink
from inference.testing.tls import make_certificates
from inference.transfer import wire
from inference.transfer.base import TransferLimits
from inference.transfer.link import Link
from inference.transfer.tickets import TicketState
from tests.inference.transfer.rig import PROMPT, QUICK, SECRET, Rig, rig


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> NodeTls:
    return make_certificates(tmp_path_factory.mktemp("tls")).node_tls()


def secured(tls: NodeTls, *, limits: TransferLimits = QUICK, secret: str = SECRET) -> AbstractAsyncContextManager[Rig]:
    return rig(limits=limits, sender_tls=tls.client, receiver_tls=tls.server, sender_secret=secret)


async def refused(r: Rig, cause: str) -> None:
    """The push fails for `cause`, nothing is sent, and nothing stays held."""
    ticket = r.reserve()
    with pytest.raises(TandemError, match=cause) as error:
        async with asyncio.timeout(5):
            await r.push(ticket)
    assert error.value.code is ErrorCode.UNAUTHENTICATED
    assert r.sent.bytes_sent == r.received.bytes_received == 0
    assert ticket.state is TicketState.RESERVED
    assert r.prefill.load().kv_blocks_used == 0
    assert r.sent.failures == {("sender", ErrorCode.UNAUTHENTICATED): 1}
    async with asyncio.timeout(3):
        while not r.received.failures:
            await asyncio.sleep(0.005)
    assert sum(r.received.failures.values()) == 1


async def test_many_pushes_at_once_and_one_after_another_on_kept_connections(tls: NodeTls) -> None:
    async with secured(tls) as r:
        for _ in range(3):
            await r.push(r.reserve())
        assert len(r.receiver._tasks) == 1  # of one connection
        tickets = [r.reserve(f"{PROMPT} {number}") for number in range(6)]
        await asyncio.gather(*(r.push(ticket) for ticket in tickets))
        assert {ticket.state for ticket in tickets} == {TicketState.COMMITTED}


async def test_no_byte_of_a_prompt_or_of_kv_is_seen_on_the_way(tls: NodeTls) -> None:
    seen = bytearray()

    async def listen_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward, out = await asyncio.open_connection("127.0.0.1", port)

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65_536):
                seen.extend(data)
                sink.write(data)
            sink.close()

        await asyncio.gather(copy(reader, out), copy(onward, writer))

    async with secured(tls) as r:
        port = r.target.port
        relay = await asyncio.start_server(listen_in, "127.0.0.1", 0)
        ticket = r.reserve()
        there = Address(host="127.0.0.1", port=relay.sockets[0].getsockname()[1])
        sent = await r.push(ticket, target=there)
        frames, _ = r.frames(ticket)
        await r.sender.close()
        relay.close()
    assert len(seen) > sent.bytes
    assert wire.MAGIC not in seen
    assert not any(payload[:64] in seen for _, payload in frames)


async def test_frames_of_many_pieces_arrive_whole_in_both_directions_at_once(tls: NodeTls) -> None:
    payload = memoryview(bytes(range(256)) * 20_001)
    header = wire.Hello(challenge=b"c" * 32)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        target = Address(host="127.0.0.1", port=listener.getsockname()[1])
        calling = asyncio.create_task(Link.connect(target, tls.client))
        there = Link((await asyncio.get_running_loop().sock_accept(listener))[0])
        await there.answer_over(tls.server)
        here = await calling

    async def send(link: Link) -> None:
        for _ in range(5):
            await link.send(header, [payload])

    async def receive(link: Link) -> None:
        for _ in range(5):
            assert await link.receive() == (header, payload)

    async with asyncio.timeout(20):
        await asyncio.gather(send(here), send(there), receive(here), receive(there))
    assert here.quiet
    there.close()
    assert not here.quiet
    here.close()


async def test_a_sender_in_clear_is_told_what_to_set(tls: NodeTls) -> None:
    async with rig(receiver_tls=tls.server) as r:
        await refused(r, "over TLS only: set TANDEM_WORKER_TLS_CA_FILE where the call comes from")


async def test_a_receiver_in_clear_gets_nothing_from_a_sender_that_has_an_authority(tls: NodeTls) -> None:
    async with rig(sender_tls=tls.client) as r:
        await refused(r, "does not answer in TLS, and TANDEM_WORKER_TLS_CA_FILE is set")


async def test_a_receiver_of_another_authority_gets_nothing(tls: NodeTls, tmp_path: Path) -> None:
    other = make_certificates(tmp_path).node_tls()
    async with rig(sender_tls=tls.client, receiver_tls=other.server) as r:
        await refused(r, "the worker's certificate is refused: unable to get local issuer certificate")


async def test_a_certificate_of_another_node_does_not_do_for_this_one(tmp_path: Path) -> None:
    other = make_certificates(tmp_path, "10.0.0.9").node_tls()
    async with rig(sender_tls=other.client, receiver_tls=other.server) as r:
        await refused(r, "the worker's certificate is refused: IP address mismatch")


async def test_the_secret_is_proved_inside_tls_as_without_it(tls: NodeTls) -> None:
    async with secured(tls, secret="of-another") as r:
        await refused(r, "secret")


async def test_a_caller_that_never_ends_its_handshake_is_let_go(tls: NodeTls) -> None:
    async with secured(tls, limits=TransferLimits(open_s=0.1, abort_s=0.1)) as r:
        reader, writer = await asyncio.open_connection(r.target.host, r.target.port)
        writer.write(b"\x16\x03\x01")
        async with asyncio.timeout(3):
            assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("byte", [700, 2222, 4000])
async def test_a_bit_that_flips_on_the_way_never_ends_in_a_commit(tls: NodeTls, byte: int) -> None:
    async with secured(tls) as r, TamperedLink(r.target, flip_at=byte) as link:
        ticket = r.reserve()
        with pytest.raises(TandemError):
            await r.push(ticket, target=link.address)
        await r.until_free()
        assert ticket.state is not TicketState.COMMITTED
        assert r.sent.failures


async def test_a_lost_connection_ends_the_fill_and_frees_both_sides(tls: NodeTls) -> None:
    async with secured(tls) as r, TamperedLink(r.target, cut_at=4000) as link:
        ticket = r.reserve()
        with pytest.raises(TandemError):
            await r.push(ticket, target=link.address)
        await r.until_free()
