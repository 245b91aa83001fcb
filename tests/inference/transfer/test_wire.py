import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.errors import ErrorCode, TandemError
from inference.transfer import wire


def data(layers: tuple[int, int], tokens: tuple[int, int]) -> wire.Data:
    return wire.Data(
        ticket_id="t", first_layer=layers[0], end_layer=layers[1], start=tokens[0], end=tokens[1], checksum=0
    )


def read(frame: bytes, max_payload: int = wire.MAX_PAYLOAD_BYTES) -> tuple[wire.Header, int]:
    preamble = wire.decode_preamble(frame[: wire.PREAMBLE_BYTES], max_payload)
    return wire.decode_header(preamble, frame[wire.PREAMBLE_BYTES :]), preamble.payload_bytes


def raw_frame(body: bytes, version: int = wire.VERSION, payload_bytes: int = 0) -> bytes:
    sizes = wire._SIZES.pack(wire.MAGIC, version, len(body), payload_bytes)
    return sizes + wire.Seal().next(sizes, body) + body


HEADER = wire.Open(ticket_id="t", fingerprint="f", tokens=3, prompt_digest=2**64 - 1)


def test_a_frame_reads_back_as_written():
    assert read(wire.encode(HEADER, payload_bytes=17)) == (HEADER, 17)


def test_bytes_of_another_protocol_are_refused():
    with pytest.raises(TandemError, match="does not speak"):
        read(b"GET /worker/status HTTP/1.1")


def test_another_version_is_refused_naming_both():
    with pytest.raises(TandemError, match=r"version 7 .* version 3") as refused:
        read(raw_frame(b"whatever", version=7))
    assert refused.value.code is ErrorCode.FINGERPRINT_MISMATCH


def test_frames_beyond_the_limits_are_refused_before_they_are_read():
    with pytest.raises(TandemError, match="are allowed"):
        read(raw_frame(bytes(wire.MAX_HEADER_BYTES + 1)))
    with pytest.raises(TandemError, match="are allowed"):
        read(wire.encode(HEADER, payload_bytes=wire.MAX_PAYLOAD_BYTES + 1))
    with pytest.raises(TandemError, match="are allowed"):
        read(wire.encode(HEADER, payload_bytes=1), max_payload=0)


@given(st.integers(0, 8 * len(wire.encode(HEADER, payload_bytes=9)) - 1))
def test_no_single_damaged_bit_goes_unnoticed(bit):
    frame = bytearray(wire.encode(HEADER, payload_bytes=9))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(TandemError):
        read(bytes(frame))


@pytest.mark.parametrize("body", [b"", b"\xc1\xff", b"\x80", b"\x81\xa4type\xa5other", b"\x80\x04\x95pickle"])
def test_unreadable_headers_are_refused(body):
    with pytest.raises(TandemError) as refused:
        read(raw_frame(body))
    assert refused.value.code is ErrorCode.TRANSFER_FAILED


@given(st.binary(max_size=200))
def test_no_header_bytes_raise_anything_but_a_typed_error(body):
    with contextlib.suppress(TandemError):
        read(raw_frame(body))


def sealed(key: bytes, *headers: wire.Header) -> list[bytes]:
    seal = wire.Seal(key)
    return [wire.encode(header, seal=seal) for header in headers]


def unseal(key: bytes, frames: list[bytes]) -> list[wire.Header]:
    seal = wire.Seal(key)
    read = []
    for frame in frames:
        preamble = wire.decode_preamble(frame[: wire.PREAMBLE_BYTES])
        read.append(wire.decode_header(preamble, frame[wire.PREAMBLE_BYTES :], seal))
    return read


SENT = tuple(wire.Accepted(ticket_id=name) for name in "abcde")


def test_sealed_frames_read_back_in_order():
    assert unseal(b"key", sealed(b"key", *SENT)) == list(SENT)


@given(st.lists(st.integers(0, 4), max_size=5).filter(lambda order: order != list(range(len(order)))))
def test_frames_dropped_repeated_or_moved_are_noticed_by_the_next_reader(order):
    frames = sealed(b"key", *SENT)
    with pytest.raises(TandemError) as refused:
        unseal(b"key", [frames[number] for number in order])
    assert refused.value.code is ErrorCode.CHECKSUM_MISMATCH


@pytest.mark.parametrize("key", [b"", b"another"])
def test_a_frame_without_the_key_is_no_frame(key):
    with pytest.raises(TandemError, match="forged"):
        unseal(b"key", sealed(key, *SENT))


def test_a_checksum_is_over_the_pieces_and_by_the_seed():
    assert wire.checksum([b"ab", b"c"], 1) == wire.checksum([memoryview(b"abc")], 1)
    assert wire.checksum([b"abc"], 1) != wire.checksum([b"abc"], 2)


def test_the_frame_digest_is_the_same_in_any_order_and_covers_place_and_count():
    a, b = data((0, 1), (0, 4)), data((1, 2), (0, 4))

    def digest(*frames: wire.Data) -> int:
        running = wire.FrameDigest()
        for frame in frames:
            running.add(frame)
        return running.value

    assert digest(a, b) == digest(b, a)
    assert len({digest(a), digest(a, a), digest(a, b), digest(b)}) == 4


def test_a_code_of_a_newer_peer_stays_readable():
    error = wire.error_of("moon_phase", "full")
    assert (error.code, error.message) == (ErrorCode.TRANSFER_FAILED, "moon_phase: full")
