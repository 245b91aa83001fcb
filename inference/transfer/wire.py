"""The KV transfer protocol: frames, their headers, and the sums both ends share. Pure; no socket here.

A frame is a preamble, a header (MessagePack, one of the structs below) and raw bytes:

    magic "TKV\\0" | version u16 | header bytes u16 | payload bytes u32 | code 16 bytes | header | payload

The code is a `Seal`'s. Payloads have a checksum in their header. One connection, sender on the left; every message
names its ticket, so fills may interleave:

    Hello(challenge)        ──>
                            <──  Challenge(answer, challenge)      each side proves that it knows the cluster secret
    Proof(answer)           ──>
                            <──  Welcome(what the receiver is)     from here on both seal what they send with a key
    Offer(transport, ...)   ──>                                    how payloads could travel beside the frames
                            <──  Agreed | Declined(reason)         without an offer, or declined: within the frames
    Open(ticket, ...)       ──>                                    the sender's fingerprint, prompt digest and count
                            <──  Opened(start, key)                only tokens from `start` on are to travel
    Join(ticket, key)       ──>                                    on a further connection, which then carries Data too
    Data(place, checksum)+  ──>                                    KV bytes, [layer, K|V, head, token, dim]
    Commit(digest, tokens)  ──>
                            <──  Accepted                          only now may a token be made from this KV
    Abort                   ──>

    Trial(checksum)         ──>                                    a payload that goes nowhere: preflight
                            <──  Tried

Instead of any answer the receiver may send `Refused`; it has then given the ticket's blocks back. A connection that
ends aborts the fills that were open on it or joined by it.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import xxhash

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.states import KVTransport

MAGIC = b"TKV\0"
VERSION = 3
_SIZES = struct.Struct("!4sHHI")
_CODE_BYTES = 16
PREAMBLE_BYTES = _SIZES.size + _CODE_BYTES
MAX_HEADER_BYTES = 16 * 1024
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    challenge: bytes


class Challenge(msgspec.Struct, frozen=True, kw_only=True, tag="challenge"):
    answer: bytes
    challenge: bytes


class Proof(msgspec.Struct, frozen=True, kw_only=True, tag="proof"):
    answer: bytes


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag="welcome"):
    """The sender is authenticated. What the receiver is, as far as it knows yet (its engine may still be loading):
    fingerprint and `block_size` of its engine, `kv_dtype` of its KV, and the boot of the machine that it runs on."""

    machine: str = ""
    fingerprint: str = ""
    block_size: int = 0
    kv_dtype: str = ""


class Offer(msgspec.Struct, frozen=True, kw_only=True, tag="offer"):
    """The sender's KV lies in memory of this shape, [layers, K|V, heads, slots, bytes of one head of one token], which
    the receiver may read over `transport`.

    SHARED_MEMORY: file `fd` of process `pid`, known again by `device` and `inode`. NIXL: at `address` of the agent that
    `agent` describes.
    """

    transport: KVTransport
    shape: tuple[int, int, int, int, int]
    pid: int = 0
    fd: int = -1
    device: int = 0
    inode: int = 0
    address: int = 0
    agent: bytes = b""


class Agreed(msgspec.Struct, frozen=True, kw_only=True, tag="agreed"):
    """Data frames of this connection have no payload from here on: it is read where the `Offer` said."""


class Declined(msgspec.Struct, frozen=True, kw_only=True, tag="declined"):
    reason: str


class Open(msgspec.Struct, frozen=True, kw_only=True, tag="open"):
    """Begins the fill of a ticket. tokens, prompt_digest: count and `digest_of_prompt` of the prompt. wire_dtype: of
    the payloads, where it is narrower than that of the KV."""

    ticket_id: str
    fingerprint: str
    tokens: int
    prompt_digest: int
    wire_dtype: str = ""


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag="opened"):
    """start: the receiver has KV of the tokens before it. key: what another connection has to name to join."""

    ticket_id: str
    start: int = 0
    key: bytes = b""


class Join(msgspec.Struct, frozen=True, kw_only=True, tag="join"):
    ticket_id: str
    key: bytes


class Data(msgspec.Struct, frozen=True, kw_only=True, tag="data"):
    """KV of tokens [start, end) of layers [first_layer, end_layer). checksum: `checksum` of its bytes in wire layout.
    slot: where the first of the tokens lies in the sender's memory, when the bytes are not the payload."""

    ticket_id: str
    first_layer: int
    end_layer: int
    start: int
    end: int
    checksum: int
    slot: int | None = None


class Commit(msgspec.Struct, frozen=True, kw_only=True, tag="commit"):
    """Ends a fill. tokens: that were sent of the prompt, with those before `Opened.start`. bytes: sent in all. digest:
    `FrameDigest` over all its frames. first_tokens: one of each answer."""

    ticket_id: str
    tokens: int
    bytes: int
    digest: int
    first_tokens: tuple[int, ...]


class Accepted(msgspec.Struct, frozen=True, kw_only=True, tag="accepted"):
    ticket_id: str


class Abort(msgspec.Struct, frozen=True, kw_only=True, tag="abort"):
    """The fill will not be finished, because of `code` (an `ErrorCode`)."""

    ticket_id: str
    code: str
    reason: str


class Trial(msgspec.Struct, frozen=True, kw_only=True, tag="trial"):
    """As `Data`, of no ticket: the receiver takes the bytes, compares the checksum and throws them away."""

    first_layer: int
    end_layer: int
    tokens: int
    checksum: int
    slot: int | None = None


class Tried(msgspec.Struct, frozen=True, kw_only=True, tag="tried"):
    """The bytes of a `Trial` were those that its sender had."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """ticket_id None: the whole connection is refused. `code` is an `ErrorCode`."""

    code: str
    message: str
    ticket_id: str | None = None


Header = (
    Hello | Challenge | Proof | Welcome | Offer | Agreed | Declined | Open | Opened | Join | Data | Commit | Accepted
    | Abort | Trial | Tried | Refused
)  # fmt: skip

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Header)


class Seal:
    """Codes over the frames that one side sends on one connection, in their order.

    With a key (after the handshake) no frame can be forged, changed, repeated, dropped or moved without the next reader
    noticing; without one (before it) only damage is noticed.
    """

    def __init__(self, key: bytes = b"") -> None:
        self._key = key
        self._count = 0

    def next(self, sizes: bytes, body: bytes) -> bytes:
        """The code of the next frame. Each call is one frame."""
        place = self._count.to_bytes(8, "big")
        self._count += 1
        return hashlib.blake2b(place + sizes + body, key=self._key, digest_size=_CODE_BYTES).digest()


def encode(header: Header, payload_bytes: int = 0, seal: Seal | None = None) -> bytes:
    """Preamble and header of a frame whose payload of `payload_bytes` follows."""
    body = _encoder.encode(header)
    sizes = _SIZES.pack(MAGIC, VERSION, len(body), payload_bytes)
    return sizes + (seal or Seal()).next(sizes, body) + body


@dataclass(frozen=True, slots=True)
class Preamble:
    """The first bytes of a frame: how much follows."""

    raw: bytes
    header_bytes: int
    payload_bytes: int


def decode_preamble(raw: bytes, max_payload: int = MAX_PAYLOAD_BYTES) -> Preamble:
    """Read the first `PREAMBLE_BYTES` of a frame.

    Raises:
        TandemError: TRANSFER_FAILED for what is no frame or too big, FINGERPRINT_MISMATCH for another version.
    """
    magic, version, header_bytes, payload_bytes = _SIZES.unpack_from(raw)
    if magic != MAGIC:
        raise TandemError(ErrorCode.TRANSFER_FAILED, "the peer does not speak the KV transfer protocol")
    if version != VERSION:
        raise TandemError(
            ErrorCode.FINGERPRINT_MISMATCH,
            f"the peer speaks version {version} of the KV transfer protocol, this worker version {VERSION}",
        )
    if header_bytes > MAX_HEADER_BYTES or payload_bytes > max_payload:
        raise TandemError(
            ErrorCode.TRANSFER_FAILED,
            f"a frame of {header_bytes} + {payload_bytes} bytes; {MAX_HEADER_BYTES} + {max_payload} are allowed",
        )
    return Preamble(raw, header_bytes, payload_bytes)


def decode_header(preamble: Preamble, body: bytes, seal: Seal | None = None) -> Header:
    """Read the header that follows `preamble`.

    Raises:
        TandemError: CHECKSUM_MISMATCH when it is not what the peer sealed as its next frame, TRANSFER_FAILED when it is
            no header.
    """
    code = (seal or Seal()).next(preamble.raw[: _SIZES.size], body)
    if not hmac.compare_digest(preamble.raw[_SIZES.size :], code):
        raise TandemError(ErrorCode.CHECKSUM_MISMATCH, "a header was damaged, forged or out of turn")
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise TandemError(ErrorCode.TRANSFER_FAILED, f"unreadable KV transfer header: {error}") from error


def error_of(code: str, message: str) -> TandemError:
    """The error that a peer named; a code that only a newer peer knows becomes TRANSFER_FAILED."""
    try:
        return TandemError(ErrorCode(code), message)
    except ValueError:
        return TandemError(ErrorCode.TRANSFER_FAILED, f"{code}: {message}")


def checksum(pieces: Iterable[bytes | memoryview], seed: int = 0) -> int:
    """XXH3-64 over `pieces`, one after another. seed: the connection's, which nobody outside of it knows."""
    digest = xxhash.xxh3_64(seed=seed)
    for piece in pieces:
        digest.update(piece)
    return digest.intdigest()


def digest_of_prompt(token_ids: Sequence[int]) -> int:
    return xxhash.xxh3_64_intdigest(struct.pack(f"<{len(token_ids)}q", *token_ids))


class FrameDigest:
    """Sum over place and checksum of each frame of a fill, in whatever order they come: a second, independent count of
    what was sent and what arrived."""

    _ENTRY = struct.Struct("<IIIIQ")

    def __init__(self) -> None:
        self.value = 0

    def add(self, data: Data) -> None:
        entry = self._ENTRY.pack(data.first_layer, data.end_layer, data.start, data.end, data.checksum)
        self.value = (self.value + xxhash.xxh3_64_intdigest(entry)) % 2**64
