"""The KV transfer protocol: frames, their headers, and the rules both ends share. Pure; no socket here.

A frame is a preamble, a header (MessagePack, one of the structs below) and raw bytes:

    magic "TKV\\0" | version u16 | header bytes u16 | payload bytes u32 | sum u32 | header | payload

The sum is XXH32 over all before it and the header; payloads have a checksum in their header.

One connection, sender on the left; every message names its ticket, so fills may interleave:

    Hello(challenge)        ──>
                            <──  Challenge(answer, challenge)      each side proves that it knows the cluster secret
    Proof(answer)           ──>
                            <──  Welcome
    Open(ticket, ...)       ──>                                    the sender's fingerprint, prompt digest and count
                            <──  Opened
    Data(slice, checksum)+  ──>                                    KV bytes, [layer, K|V, head, token, dim]
    Commit(digest, tokens)  ──>
                            <──  Accepted                          only now may a token be made from this KV
    Abort                   ──>

Instead of any answer the receiver may send `Refused`; it has then given the ticket's blocks back. A connection that
ends aborts the fills that were open on it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import xxhash

from inference.contracts.errors import ErrorCode, TandemError

MAGIC = b"TKV\0"
VERSION = 2
_SIZES = struct.Struct("!4sHHI")
_SUM = struct.Struct("!I")
PREAMBLE_BYTES = _SIZES.size + _SUM.size
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
    """The sender is authenticated."""


class Open(msgspec.Struct, frozen=True, kw_only=True, tag="open"):
    """Begins the fill of a ticket. tokens, prompt_digest: count and `digest_of_prompt` of the prompt."""

    ticket_id: str
    fingerprint: str
    tokens: int
    prompt_digest: int


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag="opened"):
    ticket_id: str


class Data(msgspec.Struct, frozen=True, kw_only=True, tag="data"):
    """KV of tokens [start, end) of layers [first_layer, end_layer), as payload. checksum: XXH3-64 of the payload."""

    ticket_id: str
    first_layer: int
    end_layer: int
    start: int
    end: int
    checksum: int


class Commit(msgspec.Struct, frozen=True, kw_only=True, tag="commit"):
    """Ends a fill. bytes: payload bytes sent. digest: `FrameDigest` over all its frames. first_tokens: one of each
    answer."""

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


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """ticket_id None: the whole connection is refused. `code` is an `ErrorCode`."""

    code: str
    message: str
    ticket_id: str | None = None


Header = Hello | Challenge | Proof | Welcome | Open | Opened | Data | Commit | Accepted | Abort | Refused

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Header)


def encode(header: Header, payload_bytes: int = 0) -> bytes:
    """Preamble and header of a frame whose payload of `payload_bytes` follows."""
    body = _encoder.encode(header)
    sizes = _SIZES.pack(MAGIC, VERSION, len(body), payload_bytes)
    return sizes + _SUM.pack(_sum(sizes, body)) + body


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


def decode_header(preamble: Preamble, body: bytes) -> Header:
    """Read the header that follows `preamble`.

    Raises:
        TandemError: CHECKSUM_MISMATCH when preamble or header was damaged, TRANSFER_FAILED when it is no header.
    """
    if _SUM.unpack_from(preamble.raw, _SIZES.size) != (_sum(preamble.raw[: _SIZES.size], body),):
        raise TandemError(ErrorCode.CHECKSUM_MISMATCH, "a header was damaged on its way")
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise TandemError(ErrorCode.TRANSFER_FAILED, f"unreadable KV transfer header: {error}") from error


def _sum(sizes: bytes, body: bytes) -> int:
    return xxhash.xxh32_intdigest(sizes + body)


def error_of(code: str, message: str) -> TandemError:
    """The error that a peer named; a code that only a newer peer knows becomes TRANSFER_FAILED."""
    try:
        return TandemError(ErrorCode(code), message)
    except ValueError:
        return TandemError(ErrorCode.TRANSFER_FAILED, f"{code}: {message}")


def checksum(payload: bytes | memoryview) -> int:
    return xxhash.xxh3_64_intdigest(payload)


def digest_of_prompt(token_ids: Sequence[int]) -> int:
    return xxhash.xxh3_64_intdigest(struct.pack(f"<{len(token_ids)}q", *token_ids))


class FrameDigest:
    """Running XXH3-64 over place and checksum of each frame: covers order and content without a second pass."""

    _ENTRY = struct.Struct("<IIIIQ")

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_64()

    def add(self, data: Data) -> None:
        self._hash.update(self._ENTRY.pack(data.first_layer, data.end_layer, data.start, data.end, data.checksum))

    @property
    def value(self) -> int:
        return self._hash.intdigest()


@dataclass(frozen=True, slots=True)
class Slice:
    """Tokens [start, end) of `layers`: what one Data frame carries."""

    layers: range
    start: int
    end: int


def slices(layers: int, start: int, end: int, bytes_per_token: int, limit: int) -> Iterator[Slice]:
    """Cut the KV of tokens [start, end) of all `layers` into frames of at most `limit` bytes (one token of one layer at
    least), tokens outside, layers inside."""
    per_layer = -(-bytes_per_token // layers)
    tokens_a_frame = max(1, min(end - start, limit // per_layer))
    layers_a_frame = max(1, limit // (per_layer * tokens_a_frame))
    for first in range(start, end, tokens_a_frame):
        last = min(first + tokens_a_frame, end)
        for layer in range(0, layers, layers_a_frame):
            yield Slice(range(layer, min(layer + layers_a_frame, layers)), first, last)


class Coverage:
    """Which tokens of which layers have arrived. Per layer they must come in order, each once."""

    def __init__(self, layers: int, tokens: int) -> None:
        self._tokens = tokens
        self._arrived = [0] * layers

    def add(self, data: Data) -> None:
        """Raises `TandemError(TOKEN_COUNT_MISMATCH)` for a gap, a repetition, or a place outside of the prompt."""
        inside = 0 <= data.first_layer < data.end_layer <= len(self._arrived) and data.start < data.end <= self._tokens
        layers = range(data.first_layer, data.end_layer) if inside else range(0)
        if not inside or any(self._arrived[layer] != data.start for layer in layers):
            raise TandemError(
                ErrorCode.TOKEN_COUNT_MISMATCH,
                f"KV of tokens [{data.start}, {data.end}) of layers [{data.first_layer}, {data.end_layer}) was not "
                f"expected: {min(self._arrived)} of {self._tokens} tokens of {len(self._arrived)} layers are here",
            )
        for layer in layers:
            self._arrived[layer] = data.end

    @property
    def tokens(self) -> int:
        """Tokens that are here in every layer."""
        return min(self._arrived)
