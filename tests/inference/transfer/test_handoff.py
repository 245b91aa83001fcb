import asyncio
import socket

import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.process.tls import NodeTls
from inference.testing.faults import Fault, FaultKind, FaultPoint
from inference.testing.stub_kv import KV_BYTES_PER_TOKEN, LAYERS
from inference.testing.stub_settings import StubSettings
from inference.testing.tampered_link import TamperedLink
from inference.testing.tls import make_certificates
from inference.transfer import wire
from inference.transfer.link import Link, LinkClosed
from inference.transfer.tickets import TicketState
from tests.inference.transfer.rig import PROMPT, QUICK, refusal, rig


async def refused(push) -> ErrorCode:
    with pytest.raises(TandemError) as error:
        async with asyncio.timeout(5):
            await push
    return error.value.code


# -- what goes well ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node_tls(tmp_path_factory) -> NodeTls:
    return make_certificates(tmp_path_factory.mktemp("tls")).node_tls()


@pytest.mark.parametrize("secure", [False, True])
async def test_kv_arrives_byte_for_byte_and_is_counted_exactly(secure, node_tls):
    tls = {"sender_tls": node_tls.client, "receiver_tls": node_tls.server} if secure else {}
    async with rig(**tls) as r:
        ticket = r.reserve()
        tokens = len(ticket.token_ids)
        pushed = await r.push(ticket)
        assert ticket.state is TicketState.COMMITTED
        assert (pushed.tokens, pushed.bytes) == (tokens, tokens * KV_BYTES_PER_TOKEN)
        assert r.sent.bytes_sent == r.received.bytes_received == tokens * KV_BYTES_PER_TOKEN
        frames, _ = r.frames(ticket)
        for data, payload in frames:
            layers = range(data.first_layer, data.end_layer)
            assert b"".join(r.decode.export_kv(ticket.handle, layers, data.start, data.end)) == payload


async def test_the_first_token_travels_with_the_commit():
    async with rig() as r:
        ticket = r.reserve()
        await r.push(ticket)
        assert ticket.first_tokens is not None
        assert 0 <= ticket.first_tokens[0] < r.decode.info.vocab_size


async def test_one_connection_serves_pushes_one_after_another():
    async with rig() as r:
        for _ in range(3):
            await r.push(r.reserve())
        assert len(r.receiver._tasks) == 1  # of one connection


async def test_pushes_at_the_same_time_all_arrive():
    async with rig() as r:
        tickets = [r.reserve(f"{PROMPT} {number}") for number in range(6)]
        await asyncio.gather(*(r.push(ticket) for ticket in tickets))
        assert {ticket.state for ticket in tickets} == {TicketState.COMMITTED}


async def test_fills_may_interleave_on_one_connection():
    async with rig() as r:
        one, two = r.reserve("the first of two prompts on one wire"), r.reserve("and the second one, longer than it")
        link = await r.link()
        for ticket in (one, two):
            await link.send(r.opening(ticket))
            assert isinstance((await link.receive())[0], wire.Opened)
        (frames_one, commit_one), (frames_two, commit_two) = r.frames(one, link.seed), r.frames(two, link.seed)
        for number in range(max(len(frames_one), len(frames_two))):
            for data, payload in (*frames_one[number : number + 1], *frames_two[number : number + 1]):
                await link.send(data, [memoryview(payload)])
        for commit in (commit_two, commit_one):
            await link.send(commit)
            assert (await link.receive())[0] == wire.Accepted(ticket_id=commit.ticket_id)
        assert {one.state, two.state} == {TicketState.COMMITTED}
        link.close()


async def test_an_unused_connection_is_closed():
    async with rig() as r:
        await r.push(r.reserve())
        async with asyncio.timeout(3):
            while r.receiver._tasks:
                await asyncio.sleep(0.01)
        await r.push(r.reserve())


async def test_a_kept_connection_that_died_is_replaced():
    async with rig() as r:
        await r.push(r.reserve())
        for task in [t for t in r.receiver._tasks if "_serve" in repr(t)]:
            task.cancel()
        await asyncio.sleep(0.02)
        ticket = r.reserve()
        await r.push(ticket)
        assert ticket.state is TicketState.COMMITTED


async def test_frames_renew_the_lease():
    now = [0.0]
    async with rig(lease_s=10, clock=lambda: now[0]) as r:
        ticket = r.reserve()
        link = await r.link()
        await link.send(r.opening(ticket))
        await link.receive()
        frames, commit = r.frames(ticket, link.seed)
        sent = 0
        for data, payload in frames:
            now[0] += 9
            await link.send(data, [memoryview(payload)])
            sent += len(payload)
            async with asyncio.timeout(3):
                while r.received.bytes_received < sent:
                    await asyncio.sleep(0.001)
        await link.send(commit)
        assert isinstance((await link.receive())[0], wire.Accepted)
        link.close()


# -- refusals: typed, counted on both sides, blocks free on both sides --------------------------------


async def test_another_models_kv_is_refused_naming_both():
    async with rig(prefill_settings=StubSettings(fingerprint="revision-b")) as r:
        ticket = r.reserve()
        with pytest.raises(TandemError, match=r"revision-b.*stub-1") as error:
            await r.push(ticket)
        assert error.value.code is ErrorCode.FINGERPRINT_MISMATCH
        assert r.received.failures == {("receiver", ErrorCode.FINGERPRINT_MISMATCH): 1}
        assert r.sent.failures == {("sender", ErrorCode.FINGERPRINT_MISMATCH): 1}
        assert ticket.state is TicketState.ABORTED
        assert r.free() == (0, 0)


async def test_damaged_kv_is_refused():
    async with rig() as r:
        ticket = r.reserve()
        link = await r.link()
        await link.send(r.opening(ticket))
        await link.receive()
        (data, payload), *_ = r.frames(ticket, link.seed)[0]
        await link.send(data, [memoryview(payload[:-1] + bytes([payload[-1] ^ 1]))])
        assert (await refusal(link)).code is ErrorCode.CHECKSUM_MISMATCH
        assert r.received.failures == {("receiver", ErrorCode.CHECKSUM_MISMATCH): 1}
        assert (ticket.state, r.free()) == (TicketState.ABORTED, (0, 0))
        link.close()


@pytest.mark.parametrize("byte", [400, 700, 1001, 1500, 2222, 3333, 4000])
async def test_a_bit_that_flips_on_the_way_never_ends_in_a_commit(byte):
    async with rig() as r, TamperedLink(r.target, flip_at=byte) as link:
        ticket = r.reserve()
        with pytest.raises(TandemError):
            await r.push(ticket, target=link.address)
        await r.until_free()
        assert ticket.state is TicketState.ABORTED
        assert r.sent.failures
        assert r.received.failures


async def test_a_commit_whose_sum_is_wrong_is_refused():
    async with rig() as r:
        ticket = r.reserve()
        link = await r.link()
        await link.send(r.opening(ticket))
        await link.receive()
        frames, commit = r.frames(ticket, link.seed)
        for data, payload in frames:
            await link.send(data, [memoryview(payload)])
        await link.send(wire.Commit(**{f: getattr(commit, f) for f in commit.__struct_fields__} | {"digest": 1}))
        assert (await refusal(link)).code is ErrorCode.CHECKSUM_MISMATCH
        assert r.free() == (0, 0)
        link.close()


async def test_a_commit_before_all_tokens_are_there_is_refused():
    async with rig() as r:
        ticket = r.reserve()
        link = await r.link()
        await link.send(r.opening(ticket))
        await link.receive()
        frames, commit = r.frames(ticket, link.seed)
        for data, payload in frames[: len(frames) // 2]:
            await link.send(data, [memoryview(payload)])
        await link.send(commit)
        assert (await refusal(link)).code is ErrorCode.TOKEN_COUNT_MISMATCH
        assert r.received.failures == {("receiver", ErrorCode.TOKEN_COUNT_MISMATCH): 1}
        assert (ticket.state, r.free()) == (TicketState.ABORTED, (0, 0))
        link.close()


@pytest.mark.parametrize(
    ("changed", "code"),
    [({"tokens": 3}, ErrorCode.TOKEN_COUNT_MISMATCH), ({"prompt_digest": 3}, ErrorCode.CHECKSUM_MISMATCH)],
)
async def test_kv_of_another_prompt_is_refused(changed, code):
    async with rig() as r:
        ticket = r.reserve()
        link = await r.link()
        await link.send(r.opening(ticket, **changed))
        assert (await refusal(link)).code is code
        assert r.free() == (0, 0)
        link.close()


async def test_a_frame_of_the_wrong_size_is_refused():
    async with rig() as r:
        ticket = r.reserve()
        link = await r.link()
        await link.send(r.opening(ticket))
        await link.receive()
        (data, payload), *_ = r.frames(ticket, link.seed)[0]
        short = payload[:-1]
        fields = {f: getattr(data, f) for f in data.__struct_fields__} | {"checksum": wire.checksum([short], link.seed)}
        await link.send(wire.Data(**fields), [memoryview(short)])
        assert (await refusal(link)).code is ErrorCode.TOKEN_COUNT_MISMATCH
        assert r.free() == (0, 0)
        link.close()


async def test_a_ticket_nobody_issued_is_refused():
    async with rig() as r:
        ticket = r.reserve()
        assert await refused(r.push(ticket, ticket_id="f" * 32)) is ErrorCode.TICKET_UNKNOWN
        assert r.received.failures == {("receiver", ErrorCode.TICKET_UNKNOWN): 1}
        assert r.sent.failures == {("sender", ErrorCode.TICKET_UNKNOWN): 1}
        assert ticket.state is TicketState.RESERVED
        assert r.free()[0] == 0


async def test_an_expired_ticket_is_refused_at_any_frame():
    now = [0.0]
    async with rig(lease_s=1, clock=lambda: now[0]) as r:
        ticket = r.reserve()
        link = await r.link()
        await link.send(r.opening(ticket))
        await link.receive()
        now[0] += 1
        (data, payload), *rest = r.frames(ticket, link.seed)[0]
        await link.send(data, [memoryview(payload)])
        assert (await refusal(link)).code is ErrorCode.TICKET_EXPIRED
        assert r.free() == (0, 0)
        assert r.received.failures == {("receiver", ErrorCode.TICKET_EXPIRED): 1}
        for data, payload in rest:  # what was on its way is dropped without another word
            await link.send(data, [memoryview(payload)])
        other = r.reserve("another prompt")
        await link.send(r.opening(other))
        assert isinstance((await link.receive())[0], wire.Opened)
        link.close()


async def test_blocks_of_an_expired_ticket_are_not_written_after_reuse():
    """F02: a late frame must never land in memory that another request holds by now."""
    now = [0.0]
    settings = StubSettings(kv_blocks=6)
    async with rig(lease_s=1, clock=lambda: now[0], decode_settings=settings) as r:
        late = r.reserve()
        link = await r.link()
        await link.send(r.opening(late))
        await link.receive()
        frames, _ = r.frames(late, link.seed)
        now[0] += 1
        r.tickets.expire_due()
        other = r.reserve("b" * len(PROMPT))
        await r.push(other)
        before = b"".join(r.decode.export_kv(other.handle, range(LAYERS), 0, len(other.token_ids)))
        for data, payload in frames:
            await link.send(data, [memoryview(payload)])
        assert (await refusal(link)).code is ErrorCode.TICKET_EXPIRED
        assert b"".join(r.decode.export_kv(other.handle, range(LAYERS), 0, len(other.token_ids))) == before
        link.close()


async def test_a_sender_without_the_secret_learns_nothing_and_changes_nothing():
    async with rig(sender_secret="of-another-cluster") as r:
        ticket = r.reserve()
        assert await refused(r.push(ticket)) is ErrorCode.UNAUTHENTICATED
        assert ticket.state is TicketState.RESERVED
        assert r.free()[0] == 0
        assert r.sent.failures == {("sender", ErrorCode.UNAUTHENTICATED): 1}
        async with asyncio.timeout(3):
            while not r.received.failures:
                await asyncio.sleep(0.005)
        assert r.received.failures == {("receiver", ErrorCode.UNAUTHENTICATED): 1}


async def test_an_unproven_peer_can_not_have_another_refusal_counted():
    async with rig() as r:
        link = await Link.connect(r.target)
        await link.send(wire.Hello(challenge=b"x" * 32))
        await link.receive()
        await link.send(wire.Refused(code=ErrorCode.CHECKSUM_MISMATCH, message="made up"))
        assert (await refusal(link)).code is ErrorCode.UNAUTHENTICATED
        assert r.received.failures == {("receiver", ErrorCode.UNAUTHENTICATED): 1}
        link.close()


async def test_a_peer_that_can_not_prove_the_secret_is_refused():
    async with rig() as r:
        link = await Link.connect(r.target)
        await link.send(wire.Hello(challenge=b"x" * 32))
        await link.receive()
        await link.send(wire.Proof(answer=b"y" * 32))
        assert (await refusal(link)).code is ErrorCode.UNAUTHENTICATED
        assert r.received.failures == {("receiver", ErrorCode.UNAUTHENTICATED): 1}
        link.close()


async def test_a_receiver_without_the_secret_gets_no_kv():
    async with rig() as r:
        impostor = await asyncio.start_server(_impostor, "127.0.0.1", 0)
        port = impostor.sockets[0].getsockname()[1]
        ticket = r.reserve()
        assert await refused(r.push(ticket, target=Address(host="127.0.0.1", port=port))) is ErrorCode.UNAUTHENTICATED
        assert r.sent.bytes_sent == 0
        impostor.close()


async def _impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1024)
    writer.write(wire.encode(wire.Challenge(answer=b"z" * 32, challenge=b"z" * 32)))
    await reader.read(1024)
    writer.close()


async def test_an_answer_can_not_be_mirrored():
    """A sender that only returns what the receiver sent it proves nothing."""
    async with rig() as r:
        link = await Link.connect(r.target)
        await link.send(wire.Hello(challenge=b"x" * 32))
        challenge, _ = await link.receive()
        await link.send(wire.Proof(answer=challenge.answer))
        assert (await refusal(link)).code is ErrorCode.UNAUTHENTICATED
        link.close()


async def test_no_frame_counts_before_the_handshake():
    async with rig() as r:
        ticket = r.reserve()
        link = await Link.connect(r.target)
        await link.send(r.opening(ticket))
        assert (await refusal(link)).code is ErrorCode.UNAUTHENTICATED
        assert ticket.state is TicketState.RESERVED
        link.close()


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\x80\x04\x95" + b"pickle" * 9, bytes(64), b"TKV\0"])
async def test_garbage_on_the_port_harms_nobody(garbage):
    async with rig() as r:
        ticket = r.reserve()
        reader, writer = await asyncio.open_connection(r.target.host, r.target.port)
        writer.write(garbage)
        await writer.drain()
        writer.write_eof()
        async with asyncio.timeout(3):
            await reader.read()
        writer.close()
        await r.push(ticket)
        assert ticket.state is TicketState.COMMITTED


async def test_a_silent_caller_is_let_go():
    async with rig(limits=QUICK.__class__(open_s=0.1, abort_s=0.1)) as r:
        reader, writer = await asyncio.open_connection(r.target.host, r.target.port)
        async with asyncio.timeout(3):
            assert await reader.read() == b""
        writer.close()


async def test_a_caller_of_another_version_is_told_both():
    async with rig() as r:
        reader, writer = await asyncio.open_connection(r.target.host, r.target.port)
        writer.write(wire._SIZES.pack(wire.MAGIC, 9, 5, 0) + bytes(16))
        async with asyncio.timeout(3):
            answer = await reader.read()
        assert b"version 9" in answer
        assert r.received.failures == {("receiver", ErrorCode.FINGERPRINT_MISMATCH): 1}
        writer.close()


# -- what breaks in the middle ---------------------------------------------------------------------


async def test_a_lost_connection_ends_the_fill_and_frees_both_sides():
    async with rig() as r, TamperedLink(r.target, cut_at=2500) as link:
        ticket = r.reserve()
        assert await refused(r.push(ticket, target=link.address)) is ErrorCode.TRANSFER_FAILED
        await r.until_free()
        assert ticket.ended is not None
        assert ticket.ended.code is ErrorCode.TRANSFER_FAILED
        assert r.received.failures == {("receiver", ErrorCode.TRANSFER_FAILED): 1}


async def test_a_truncated_frame_is_never_taken_for_a_whole_one():
    async with rig() as r:
        ticket = r.reserve()
        link = await r.link()
        await link.send(r.opening(ticket))
        await link.receive()
        (data, payload), *_ = r.frames(ticket, link.seed)[0]
        await link._loop.sock_sendall(link._sock, wire.encode(data, len(payload)) + payload[:-5])
        link.close()
        await r.until_free()
        assert (ticket.state, r.received.bytes_received) == (TicketState.ABORTED, 0)


async def test_a_receiver_that_stops_reading_is_given_up_on():
    async with rig() as r, TamperedLink(r.target, stall_at=2500) as link:
        ticket = r.reserve()
        assert await refused(r.push(ticket, target=link.address)) is ErrorCode.TRANSFER_FAILED
        assert r.prefill.load().kv_blocks_used == 0


async def test_nobody_listening_is_a_typed_failure():
    async with rig() as r:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        ticket = r.reserve()
        target = Address(host="127.0.0.1", port=port)
        assert await refused(r.push(ticket, target=target)) is ErrorCode.TRANSFER_FAILED
        assert r.prefill.load().kv_blocks_used == 0


async def test_a_refusal_in_the_middle_stops_the_sender():
    settings = StubSettings(prefill_s_per_token=0.002)
    async with rig(prefill_settings=settings) as r:
        ticket = r.reserve("x" * 400)
        push = asyncio.create_task(r.push(ticket))
        while r.received.bytes_received == 0:
            await asyncio.sleep(0.005)
        r.tickets.abort(ticket, TandemError(ErrorCode.CANCELLED, "the client left"))
        assert await refused(push) is ErrorCode.CANCELLED
        assert r.sent.bytes_sent < 400 * KV_BYTES_PER_TOKEN
        assert r.free() == (0, 0)
        assert not r.received.failures  # a client that leaves is no fault
        assert not r.sent.failures


@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.05])
async def test_a_cancelled_push_frees_the_receiver_at_once(after_s):
    settings = StubSettings(prefill_s_per_token=0.002)
    async with rig(prefill_settings=settings) as r:
        ticket = r.reserve("x" * 400)
        push = asyncio.create_task(r.push(ticket))
        await asyncio.sleep(after_s)
        push.cancel()
        with pytest.raises(asyncio.CancelledError):
            await push
        if ticket.state is not TicketState.RESERVED:  # cancelled before it had begun: nothing was ever said
            await r.until_free()


async def test_a_failed_prefill_is_told_to_the_receiver_with_its_cause():
    fault = Fault(point=FaultPoint.AFTER_PREFILL, kind=FaultKind.REFUSE)
    async with rig(prefill_settings=StubSettings(faults=(fault,))) as r:
        ticket = r.reserve()
        assert await refused(r.push(ticket)) is ErrorCode.ENGINE_FAILED
        await r.until_free()
        assert ticket.ended.code is ErrorCode.ENGINE_FAILED


async def test_a_receiver_that_can_not_write_refuses():
    fault = Fault(point=FaultPoint.MID_TRANSFER, kind=FaultKind.REFUSE, after=1)
    async with rig(decode_settings=StubSettings(faults=(fault,))) as r:
        ticket = r.reserve()
        assert await refused(r.push(ticket)) is ErrorCode.ENGINE_FAILED
        assert r.free() == (0, 0)


async def test_a_fill_of_another_connection_can_not_be_continued_or_aborted():
    async with rig() as r:
        ticket = r.reserve()
        mine, theirs = await r.link(), await r.link()
        await mine.send(r.opening(ticket))
        await mine.receive()
        (data, payload), *_ = r.frames(ticket, theirs.seed)[0]
        await theirs.send(wire.Abort(ticket_id=ticket.ticket_id, code="cancelled", reason="no"))
        await theirs.send(data, [memoryview(payload)])
        assert (await refusal(theirs)).code is ErrorCode.TICKET_UNKNOWN
        assert ticket.state is TicketState.FILLING
        mine.close()
        theirs.close()


async def test_a_closing_receiver_ends_its_fills():
    async with rig() as r:
        ticket = r.reserve()
        link = await r.link()
        await link.send(r.opening(ticket))
        await link.receive()
        await r.receiver.close()
        assert ticket.state is TicketState.ABORTED
        with pytest.raises((LinkClosed, ConnectionError)):
            await link.receive()
        link.close()


async def test_too_many_connections_are_turned_away():
    async with rig(limits=QUICK.__class__(connections=2)) as r:
        links = [await r.link() for _ in range(2)]
        reader, writer = await asyncio.open_connection(r.target.host, r.target.port)
        async with asyncio.timeout(3):
            assert await reader.read() == b""
        writer.close()
        for link in links:
            link.close()
