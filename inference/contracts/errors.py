"""Stable codes of what can go wrong between router and workers, and whose turn it is.

yours   INVALID_REQUEST, CONTEXT_LENGTH_EXCEEDED, MODEL_NOT_FOUND
retry   KV_FULL, QUEUE_FULL, DRAINING, NOT_READY          (elsewhere or later; the worker is healthy)
agent   NOT_IDLE (later), SWITCH_REFUSED                  (a change of role; the worker stays what it was)
ours    FINGERPRINT_MISMATCH, CHECKSUM_MISMATCH, TOKEN_COUNT_MISMATCH, TICKET_EXPIRED, TICKET_UNKNOWN,
        UNAUTHENTICATED, UNREADABLE, TRANSFER_FAILED, DEADLINE_EXCEEDED, CANCELLED, ENGINE_FAILED
"""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    INVALID_REQUEST = "invalid_request"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    MODEL_NOT_FOUND = "model_not_found"
    KV_FULL = "kv_full"
    QUEUE_FULL = "queue_full"
    DRAINING = "draining"
    NOT_READY = "not_ready"
    FINGERPRINT_MISMATCH = "fingerprint_mismatch"
    CHECKSUM_MISMATCH = "checksum_mismatch"
    TOKEN_COUNT_MISMATCH = "token_count_mismatch"  # noqa: S105
    TICKET_EXPIRED = "ticket_expired"
    TICKET_UNKNOWN = "ticket_unknown"
    UNAUTHENTICATED = "unauthenticated"
    UNREADABLE = "unreadable"
    TRANSFER_FAILED = "transfer_failed"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    CANCELLED = "cancelled"
    ENGINE_FAILED = "engine_failed"
    NOT_IDLE = "not_idle"
    SWITCH_REFUSED = "switch_refused"


#: The client must change the request; never counted as a fault, never retried.
CLIENT_ERRORS = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.CONTEXT_LENGTH_EXCEEDED, ErrorCode.MODEL_NOT_FOUND})

#: Back-pressure from a healthy worker; try another or wait.
BUSY_ERRORS = frozenset({ErrorCode.KV_FULL, ErrorCode.QUEUE_FULL, ErrorCode.DRAINING, ErrorCode.NOT_READY})

#: HTTP status of each code on the router-to-worker hop.
HTTP_STATUS: dict[ErrorCode, int] = {
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.CONTEXT_LENGTH_EXCEEDED: 400,
    ErrorCode.MODEL_NOT_FOUND: 404,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.UNREADABLE: 400,
    ErrorCode.TICKET_UNKNOWN: 404,
    ErrorCode.TICKET_EXPIRED: 410,
    ErrorCode.FINGERPRINT_MISMATCH: 409,
    ErrorCode.NOT_IDLE: 409,
    ErrorCode.SWITCH_REFUSED: 409,
    ErrorCode.KV_FULL: 503,
    ErrorCode.QUEUE_FULL: 503,
    ErrorCode.DRAINING: 503,
    ErrorCode.NOT_READY: 503,
    ErrorCode.DEADLINE_EXCEEDED: 504,
}


def http_status(code: ErrorCode) -> int:
    """HTTP status for `code`: 500 unless said otherwise."""
    return HTTP_STATUS.get(code, 500)


class TandemError(Exception):
    """A refusal or failure with a stable code, one sentence of text, and the field at fault where there is one."""

    def __init__(self, code: ErrorCode, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
