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
    return sizes + wire._SUM.pack(wire._sum(sizes, body)) + body


HEADER = wire.Open(ticket_id="t", fingerprint="f", tokens=3, prompt_digest=2**64 - 1)


def test_a_frame_reads_back_as_written():
    assert read(wire.encode(HEADER, payload_bytes=17)) == (HEADER, 17)


def test_bytes_of_another_protocol_are_refused():
    with pytest.raises(TandemError, match="does not speak"):
        read(b"GET /worker/status HTTP/1.1")


def test_another_version_is_refused_naming_both():
    with pytest.raises(TandemError, match=r"version 7 .* version 2") as refused:
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


@given(st.integers(1, 40), st.integers(0, 50), st.integers(1, 80), st.integers(1, 64), st.integers(1, 20_000))
def test_slices_cover_every_token_of_every_layer_once_and_keep_the_limit(layers, start, count, per_layer, limit):
    pieces = list(wire.slices(layers, start, start + count, per_layer * layers, limit))
    covered = [(layer, token) for p in pieces for layer in p.layers for token in range(p.start, p.end)]
    assert sorted(covered) == [(layer, token) for layer in range(layers) for token in range(start, start + count)]
    for piece in pieces:
        size = len(piece.layers) * (piece.end - piece.start) * per_layer
        assert size <= limit or (len(piece.layers) == 1 and piece.end - piece.start == 1)


@given(st.integers(1, 12), st.integers(1, 60), st.integers(1, 500))
def test_coverage_accepts_what_slices_cut(layers, tokens, limit):
    coverage = wire.Coverage(layers, tokens)
    for piece in wire.slices(layers, 0, tokens, layers * 8, limit):
        coverage.add(data((piece.layers.start, piece.layers.stop), (piece.start, piece.end)))
    assert coverage.tokens == tokens


@pytest.mark.parametrize(
    "wrong",
    [
        data((0, 2), (1, 4)),  # a gap
        data((0, 3), (0, 4)),  # one layer too many
        data((0, 2), (0, 9)),  # beyond the prompt
        data((0, 2), (0, 0)),  # nothing
        data((2, 2), (0, 4)),  # no layer
        data((-1, 2), (0, 4)),
    ],
)
def test_coverage_refuses_frames_out_of_place(wrong):
    with pytest.raises(TandemError) as refused:
        wire.Coverage(2, 8).add(wrong)
    assert refused.value.code is ErrorCode.TOKEN_COUNT_MISMATCH


def test_coverage_refuses_a_repeated_frame():
    coverage = wire.Coverage(2, 8)
    coverage.add(data((0, 2), (0, 4)))
    with pytest.raises(TandemError, match="was not expected"):
        coverage.add(data((0, 2), (0, 4)))


def test_a_missing_layer_is_missing():
    coverage = wire.Coverage(2, 8)
    coverage.add(data((0, 1), (0, 8)))
    assert coverage.tokens == 0


def test_the_frame_digest_covers_order_and_place():
    a, b = data((0, 1), (0, 4)), data((1, 2), (0, 4))
    there, back = wire.FrameDigest(), wire.FrameDigest()
    for frame in (a, b):
        there.add(frame)
    for frame in (b, a):
        back.add(frame)
    assert there.value != back.value


def test_a_code_of_a_newer_peer_stays_readable():
    error = wire.error_of("moon_phase", "full")
    assert (error.code, error.message) == (ErrorCode.TRANSFER_FAILED, "moon_phase: full")
