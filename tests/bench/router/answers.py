"""What every stub answers: 64 tokens, at the pace that the name of the model says."""

from __future__ import annotations

from dataclasses import dataclass

TOKENS = 64
STEP_S = 0.01

#: The first token's text: no other part of an answer holds it, so that clients see when it comes without parsing.
FIRST = "Alpha"
TEXTS = (FIRST, *(f" word{number:02d}" for number in range(1, TOKENS)))

#: Tokens of each prompt, as a worker would count them.
PROMPT_IDS = tuple(range(1000, 1128))


@dataclass(frozen=True)
class Pace:
    """at_once: so many pieces of a stream go out together at its beginning, then one with each step of 10 ms."""

    at_once: int


#: By model. burst: all of an answer at once. paced: a token with each step, as an engine writes. held: half of it at
#: once, for clients that leave in the middle.
PACES = {"burst": Pace(1_000_000), "paced": Pace(1), "held": Pace(TOKENS // 2)}


def chunk(payload: bytes) -> bytes:
    """One chunk of a chunked HTTP answer."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)


LAST_CHUNK = b"0\r\n\r\n"


def whole(payload: bytes, status: bytes = b"200 OK") -> bytes:
    """An HTTP answer of one JSON text."""
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(payload)) + payload


def stream_head(content_type: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % content_type
