"""Workers of Tandem's protocol: reserve, prefill, generate, release, in the words of real workers."""

from __future__ import annotations

import itertools

from inference.contracts import codec, names
from inference.contracts.generation import Finished, HandoffDone, Ticket, TokenDelta, WorkerTimings
from inference.contracts.reports import Address, WorkerLoad
from inference.contracts.sampling import SAMPLING_VERSION
from inference.contracts.states import FinishReason, Role
from inference.contracts.worker import PairReport, WorkerStatus
from tests.bench.router.answers import LAST_CHUNK, PACES, PROMPT_IDS, TEXTS, TOKENS, chunk, stream_head, whole
from tests.bench.router.stub_server import Connection

FINGERPRINT = "bench"
TRANSFER = Address(host="127.0.0.1", port=9)
_LOAD = WorkerLoad(
    running=8, waiting=0, waiting_tokens=0, kv_blocks_used=1000, kv_blocks_total=100_000, kv_block_tokens=16
)
_TOKENS = [
    TokenDelta(token_ids=(1000 + number,), text=text, finish=FinishReason.LENGTH if number == TOKENS - 1 else None)
    for number, text in enumerate(TEXTS)
]
_HEAD = stream_head(b"application/x-ndjson")


def _event(message: object) -> bytes:
    return chunk(codec.encode(message) + b"\n")


_PREFILL = [
    _event(_TOKENS[0]),
    _event(
        HandoffDone(
            tokens=len(PROMPT_IDS),
            bytes=1_000_000,
            transfer_s=0.001,
            timings=WorkerTimings(queue_s=0.0001, prefill_s=0.0001, handoff_s=0.0001),
            load=_LOAD,
        )
    )
    + LAST_CHUNK,
]
_FINISHED = Finished(
    reason=FinishReason.LENGTH,
    text="",
    prompt_tokens=len(PROMPT_IDS),
    cached_tokens=0,
    completion_tokens=TOKENS,
    timings=WorkerTimings(decode_wait_s=0.0001),
    load=_LOAD,
)
# A real worker writes its closing event right after the last token.
_GENERATE = [*map(_event, _TOKENS[1:-1]), _event(_TOKENS[-1]) + _event(_FINISHED) + LAST_CHUNK]
_RELEASED = b"HTTP/1.1 204 No Content\r\n\r\n"
_PAIR = whole(codec.encode(PairReport()))


class StubWorker:
    """Answers as one worker of a role."""

    def __init__(self, worker_id: str, role: Role) -> None:
        self._worker_id = worker_id
        self._numbers = itertools.count()
        ticket = codec.encode(
            Ticket(
                ticket_id="@",
                request_id="-",
                worker_id=worker_id,
                fingerprint=FINGERPRINT,
                token_ids=PROMPT_IDS,
                cached_tokens=0,
                max_tokens=TOKENS,
                lease_s=10.0,
                transfer=TRANSFER,
                sampling_version=SAMPLING_VERSION,
                load=_LOAD,
            )
        )
        self._ticket = ticket.split(b"@")
        self._status = whole(
            codec.encode(
                WorkerStatus(
                    worker_id=worker_id,
                    incarnation="bench",
                    role=role,
                    ready=True,
                    draining=False,
                    healthy=True,
                    failure=None,
                    fatal=False,
                    transfer=TRANSFER if role is Role.DECODE else None,
                    fingerprint=FINGERPRINT,
                    context_length=4096,
                    load=_LOAD,
                )
            )
        )

    def answer(self, connection: Connection, method: bytes, path: bytes, body: bytes) -> None:
        if path == names.WORKER_RESERVE.encode():
            before, after = self._ticket
            model = next(name for name in PACES if b'"model_name":"%b"' % name.encode() in body)
            connection.send(whole(before + b"%b-%d" % (model.encode(), next(self._numbers)) + after))
        elif path == names.WORKER_PREFILL.encode():
            connection.stream(_HEAD, _PREFILL, len(_PREFILL))
        elif path == names.WORKER_GENERATE.encode():
            ticket = body.partition(b'"ticket_id":"')[2]
            connection.stream(_HEAD, _GENERATE, PACES[ticket.partition(b"-")[0].decode()].at_once - 1)
        elif path == names.WORKER_STATUS.encode():
            connection.send(self._status)
        elif path == names.WORKER_PREFLIGHT.encode():
            connection.send(_PAIR)
        elif method == b"DELETE":
            connection.send(_RELEASED)
        else:
            connection.send(whole(b"{}", b"404 Not Found"))
