"""Whatever happens to the frames of a fill, a token is made from the right KV or not at all."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import TextPrompt
from inference.contracts.states import KVTransport
from inference.engine.interface import KVHandle
from inference.testing.stub_kv import KV_BYTES_PER_TOKEN, LAYERS
from inference.transfer import wire
from inference.transfer.carriers import InFrames, InPlace
from inference.transfer.lines import _propose
from inference.transfer.link import Link
from inference.transfer.memory import offer_of
from inference.transfer.places import needed
from inference.transfer.tickets import HeldTicket, TicketState
from tests.inference.transfer.rig import PROMPT, SAMPLING, Rig, rig

CASES = 600
FRAME_BYTES = 400

both_transports = pytest.mark.parametrize("transport", [KVTransport.TCP, KVTransport.SHARED_MEMORY])

Frame = tuple[wire.Header, bytes]


@dataclass
class Fill:
    """A right fill, ready to be sent by hand on its own connection; `steps` may be spoilt before. A step is a frame or
    something that happens between two frames."""

    rig: Rig
    link: Link
    ticket: HeldTicket
    handle: KVHandle
    steps: list[Frame | Callable[[], None]] = field(default_factory=list)

    @property
    def frames(self) -> list[int]:
        """Where in `steps` the Data frames are."""
        return [at for at, step in enumerate(self.steps) if isinstance(step, tuple) and isinstance(step[0], wire.Data)]

    async def send(self) -> None:
        """All steps, then the end of the connection, as the receiver sees it."""
        try:
            for step in self.steps:
                if isinstance(step, tuple):
                    await self.link.send(step[0], [memoryview(step[1])] if step[1] else [])
                else:
                    step()
            await self.link.drain()
        except OSError:
            pass  # the receiver had enough before the end
        finally:
            self.link.close()

    def check(self) -> bool:
        """Whether the fill was committed, which is only ever right with the right KV; nothing stays held."""
        committed = self.ticket.state is TicketState.COMMITTED
        if committed:
            tokens = len(self.ticket.token_ids)
            assert self.ticket.ended is None
            assert self.rig.decode.kv.content(self.ticket.handle, tokens) == expected(self.rig, self.ticket)
            self.rig.tickets.abort(self.ticket, TandemError(ErrorCode.CANCELLED, "seen"))
        elif self.ticket.state is TicketState.RESERVED:  # it was never opened
            self.ticket.expires_at = 0
            self.rig.tickets.expire_due()
        self.rig.prefill.release(self.handle)
        assert self.rig.free() == (0, 0)
        assert self.ticket.ended is not None
        return committed


def expected(r: Rig, ticket: HeldTicket) -> bytes | None:
    """The KV of the ticket's prompt, computed anew."""
    handle = r.prefill.reserve(len(ticket.token_ids))
    r.prefill.kv.compute(handle, ticket.token_ids, 0, len(ticket.token_ids))
    content = r.prefill.kv.content(handle, len(ticket.token_ids))
    r.prefill.release(handle)
    return content


async def right_fill(r: Rig, transport: KVTransport, prompt: str = PROMPT) -> Fill:
    link = await r.link()
    if transport is KVTransport.TCP:
        carrier = InFrames(r.prefill, FRAME_BYTES)
    else:
        await _propose(link, offer_of(r.prefill.kv_memory))
        carrier = InPlace(r.prefill, FRAME_BYTES, transport)
    ticket = r.tickets.issue("req", r.decode.tokenize(TextPrompt(text=prompt)), SAMPLING)
    tokens = len(ticket.token_ids)
    handle = r.prefill.reserve(tokens)
    r.prefill.kv.compute(handle, ticket.token_ids, 0, tokens)
    fill = Fill(r, link, ticket, handle, [(r.opening(ticket), b"")])
    digest, size = wire.FrameDigest(), 0
    for piece in carrier.cut(handle, needed(LAYERS, (), tokens, 0), range(LAYERS), 0, tokens):
        load = carrier.load(handle, piece, link.seed)
        data = wire.Data(
            ticket_id=ticket.ticket_id,
            first_layer=piece.layers.start,
            end_layer=piece.layers.stop,
            start=piece.start,
            end=piece.end,
            checksum=load.checksum,
            slot=load.slot,
        )
        digest.add(data)
        size += load.bytes
        fill.steps.append((data, b"".join(load.payload)))
    commit = wire.Commit(
        ticket_id=ticket.ticket_id, tokens=tokens, bytes=size, digest=digest.value, first_tokens=(260,)
    )
    fill.steps.append((commit, b""))
    return fill


# -- an authenticated sender that is out of order ------------------------------------------------


def lose(fill: Fill, dice: random.Random) -> None:
    del fill.steps[dice.choice(fill.frames)]


def double(fill: Fill, dice: random.Random) -> None:
    fill.steps.insert(dice.randint(1, len(fill.steps)), fill.steps[dice.choice(fill.frames)])


def reorder(fill: Fill, dice: random.Random) -> None:
    frames = fill.frames
    moved = [fill.steps[at] for at in frames]
    dice.shuffle(moved)
    for at, step in zip(frames, moved, strict=True):
        fill.steps[at] = step


def move_commit(fill: Fill, dice: random.Random) -> None:
    fill.steps.insert(dice.randrange(len(fill.steps)), fill.steps.pop())


def corrupt(fill: Fill, dice: random.Random) -> None:
    """One bit of KV: of a payload, or where it lies in the sender's memory, after its checksum was made."""
    at = dice.choice(fill.frames)
    data, payload = fill.steps[at]
    if payload:
        where = dice.randrange(len(payload))
        fill.steps[at] = (
            data,
            payload[:where] + bytes([payload[where] ^ 1 << dice.randrange(8)]) + payload[where + 1 :],
        )
    else:
        arena = fill.rig.prefill.kv._arena
        arena[data.first_layer, dice.randrange(2), 0, data.slot, dice.randrange(8)] ^= 1 << dice.randrange(8)


def misplace(fill: Fill, dice: random.Random) -> None:
    """The header says another place than the one that the KV is of."""
    at = dice.choice(fill.frames)
    data, payload = fill.steps[at]
    name = dice.choice(["first_layer", "end_layer", "start", "end", "checksum", "slot"])
    value = (getattr(data, name) or 0) + dice.choice([-16, -1, 1, 16, 10**9])
    fill.steps[at] = (msgspec.structs.replace(data, **{name: value}), payload)


def swap(fill: Fill, dice: random.Random) -> None:
    """Two frames carry each other's KV."""
    one, two = dice.choice(fill.frames), dice.choice(fill.frames)
    (first, payload), (second, other) = fill.steps[one], fill.steps[two]
    fill.steps[one] = (msgspec.structs.replace(first, slot=second.slot), other)
    fill.steps[two] = (msgspec.structs.replace(second, slot=first.slot), payload)


def lie(fill: Fill, dice: random.Random) -> None:
    """Another commit than the right one."""
    at = next(at for at, step in enumerate(fill.steps) if isinstance(step, tuple) and isinstance(step[0], wire.Commit))
    commit = fill.steps[at][0]
    false = dice.choice(
        [{"tokens": commit.tokens - 1}, {"bytes": commit.bytes + 1}, {"digest": 0}, {"first_tokens": ()},
         {"first_tokens": (10**6,)}, {"first_tokens": (-1,)}]
    )  # fmt: skip
    fill.steps[at] = (msgspec.structs.replace(commit, **false), b"")


def keep_back(fill: Fill, dice: random.Random) -> None:
    """A frame is not sent, and the commit is that of the others alone."""
    at = dice.choice(fill.frames)
    del fill.steps[at]
    digest, carried = wire.FrameDigest(), [fill.steps[at] for at in fill.frames]
    for data, _ in carried:
        digest.add(data)
    at = next(at for at, step in enumerate(fill.steps) if isinstance(step, tuple) and isinstance(step[0], wire.Commit))
    row_bytes = KV_BYTES_PER_TOKEN // LAYERS
    size = sum((data.end_layer - data.first_layer) * (data.end - data.start) * row_bytes for data, _ in carried)
    fill.steps[at] = (msgspec.structs.replace(fill.steps[at][0], digest=digest.value, bytes=size), b"")


def be_late(fill: Fill, dice: random.Random) -> None:
    """The ticket is given up while frames are under way, and its blocks have another owner."""

    def end() -> None:
        fill.rig.tickets.abort(fill.ticket, TandemError(ErrorCode.CANCELLED, "the client left"))

    fill.steps.insert(dice.randrange(len(fill.steps)), end)


def name_another(fill: Fill, dice: random.Random) -> None:
    at = dice.choice(fill.frames)
    fill.steps[at] = (msgspec.structs.replace(fill.steps[at][0], ticket_id="f" * 32), fill.steps[at][1])


def open_again(fill: Fill, dice: random.Random) -> None:
    fill.steps.insert(dice.randint(1, len(fill.steps)), fill.steps[0])


def fall_back(fill: Fill, dice: random.Random) -> None:
    """A payload where the KV was to be read from memory, or the other way round."""
    at = dice.choice(fill.frames)
    data, payload = fill.steps[at]
    fill.steps[at] = (msgspec.structs.replace(data, slot=0 if payload else None), b"")


SPOILERS = (
    keep_back,
    lose,
    double,
    move_commit,
    corrupt,
    misplace,
    swap,
    lie,
    be_late,
    name_another,
    open_again,
    fall_back,
)


@both_transports
async def test_frames_in_any_order_are_a_right_fill(transport):
    dice = random.Random(1)
    async with rig() as r:
        for _ in range(20):
            fill = await right_fill(r, transport)
            reorder(fill, dice)
            await fill.send()
            assert fill.check()


@both_transports
@pytest.mark.parametrize("spoil", SPOILERS)
async def test_a_spoilt_fill_leads_to_no_token_from_wrong_kv(transport, spoil):
    dice = random.Random(spoil.__name__)
    async with rig() as r:
        for _ in range(CASES // len(SPOILERS)):
            fill = await right_fill(r, transport)
            right = list(fill.steps)
            spoil(fill, dice)
            await fill.send()
            # what comes after the commit, or what is no change after all, does no harm
            harmless = fill.steps[: len(right)] == right and spoil is not corrupt
            assert not fill.check() or harmless


@both_transports
async def test_a_fill_spoilt_in_several_ways_leads_to_no_token_from_wrong_kv(transport):
    dice = random.Random(2)
    outcomes = []
    async with rig() as r:
        for _ in range(CASES):
            fill = await right_fill(r, transport)
            for spoil in dice.choices((*SPOILERS, reorder, reorder, reorder), k=dice.randint(1, 3)):
                if fill.frames:
                    spoil(fill, dice)
            await fill.send()
            outcomes.append(fill.check())
    assert 0 < sum(outcomes) < len(outcomes)  # some were only reordered


# -- a network that does what it likes -------------------------------------------------------------


def flip_bit(frames: list[bytes], dice: random.Random) -> None:
    at = dice.randrange(len(frames))
    where = dice.randrange(len(frames[at]))
    frames[at] = frames[at][:where] + bytes([frames[at][where] ^ 1 << dice.randrange(8)]) + frames[at][where + 1 :]


def drop(frames: list[bytes], dice: random.Random) -> None:
    del frames[dice.randrange(len(frames))]


def repeat(frames: list[bytes], dice: random.Random) -> None:
    frames.insert(dice.randint(0, len(frames)), dice.choice(frames))


def exchange(frames: list[bytes], dice: random.Random) -> None:
    one, two = dice.sample(range(len(frames)), 2)
    frames[one], frames[two] = frames[two], frames[one]


def cut(frames: list[bytes], dice: random.Random) -> None:
    at = dice.randrange(len(frames))
    frames[at:] = [frames[at][: dice.randrange(len(frames[at]))]]


def forge(frames: list[bytes], dice: random.Random) -> None:
    """A frame of somebody who knows everything but the key."""
    stolen = dice.choice(frames)
    preamble = wire.decode_preamble(stolen[: wire.PREAMBLE_BYTES])
    body = stolen[wire.PREAMBLE_BYTES : wire.PREAMBLE_BYTES + preamble.header_bytes]
    header = wire._decoder.decode(body)
    payload = stolen[wire.PREAMBLE_BYTES + preamble.header_bytes :]
    at = dice.randrange(len(frames))
    seal = wire.Seal(dice.choice([b"", dice.randbytes(32)]))
    for _ in range(at):
        seal.next(b"", b"")
    frames[at] = wire.encode(header, len(payload), seal) + payload


@both_transports
@pytest.mark.parametrize("tamper", [flip_bit, drop, repeat, exchange, cut, forge])
async def test_what_a_network_changes_never_ends_in_a_commit(transport, tamper):
    dice = random.Random(tamper.__name__)
    outcomes = []
    async with rig() as r:
        for _ in range(CASES // 6):
            fill = await right_fill(r, transport)
            frames = [wire.encode(header, len(body), fill.link._outgoing) + body for header, body in fill.steps]
            whole = b"".join(frames)
            tamper(frames, dice)
            arrived = b"".join(frames)
            fill.steps = []
            await fill.link._loop.sock_sendall(fill.link._sock, arrived)
            await fill.send()
            outcomes.append(fill.check())
            assert outcomes[-1] == arrived.startswith(whole)  # only what follows the commit may be changed
    assert not all(outcomes)


@both_transports
async def test_frames_of_another_connection_are_worth_nothing(transport):
    """Recorded on one connection, replayed on the next: other keys, other challenges."""
    async with rig() as r:
        recorded = await right_fill(r, transport)
        frames = [wire.encode(header, len(body), recorded.link._outgoing) + body for header, body in recorded.steps]
        replayed = await r.link()
        await replayed._loop.sock_sendall(replayed._sock, b"".join(frames))
        await replayed.drain()
        replayed.close()
        assert recorded.ticket.state is TicketState.RESERVED
        await recorded.link._loop.sock_sendall(recorded.link._sock, b"".join(frames))
        recorded.steps = []
        await recorded.send()
        assert recorded.check()
