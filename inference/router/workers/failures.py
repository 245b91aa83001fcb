"""What a call of a worker comes to where it comes to nothing: always a `TandemError`.

A `TandemError` carries what the worker said; its subclass `WorkerLost` means that the worker said nothing sensible: no
connection, a connection that broke, an answer that can't be read, a deadline that passed.
"""

from __future__ import annotations

from inference.contracts import codec
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import WorkerError
from inference.process.tls import tls_refusal

MAX_LINE_BYTES = 1024 * 1024


class WorkerLost(TandemError):
    """The worker gave no (readable) answer. code: DEADLINE_EXCEEDED when it was only silent, else ENGINE_FAILED."""


def refusal(status: int, body: bytes) -> TandemError:
    """What an answer that is not a good one says."""
    try:
        refused = codec.decode(body, WorkerError)
        return TandemError(ErrorCode(refused.code), refused.message, refused.param)
    except (codec.CodecError, ValueError):
        return WorkerLost(ErrorCode.ENGINE_FAILED, f"HTTP {status} without a readable reason")


def lost(error: Exception) -> WorkerLost:
    """What an error of the connection means."""
    return WorkerLost(ErrorCode.ENGINE_FAILED, tls_refusal(error) or f"{type(error).__name__}: {error}")
