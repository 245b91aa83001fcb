"""What a service may refuse, in one tree; the REST layer turns each into a status and one sentence.

ControlError
├── Invalid          400  the request can't be right; `field` names what to change
├── Unauthenticated  401
├── Forbidden        403
├── NotFound         404
├── Conflict         409  right once, not now
│   ├── StaleGeneration   someone changed it meanwhile; `current` is what it is now
│   └── StillRunning      the same request is being answered already; `retry_after_s` says when to ask again
├── StaleVersion     412  the same as StaleGeneration, for those who sent If-Match
├── KeyReused        422  an Idempotency-Key names one request for good
├── TooMany          429  right later; `retry_after_s` says when
└── DatabaseAway     503  nothing can be read or changed at the moment; serving goes on
"""

from __future__ import annotations

from typing import Any

_SHOWN_OF_A_KEY = 120


class ControlError(Exception):
    """message: one sentence. code: stable, for programs. field: what to change, where it is one field. current: what is
    there now. retry_after_s: whole seconds until the same may be right."""

    status = 400
    retry_after_s: int | None = None

    def __init__(
        self,
        message: str,
        *,
        code: str = "invalid",
        field: str | None = None,
        current: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.field = field
        self.current = current


class Invalid(ControlError):
    status = 400


class Unauthenticated(ControlError):
    status = 401


class Forbidden(ControlError):
    status = 403


class NotFound(ControlError):
    status = 404

    def __init__(self, kind: str, key: str) -> None:
        super().__init__(f"There is no {kind} {key[:_SHOWN_OF_A_KEY]!r}.", code="not_found")


class Conflict(ControlError):
    status = 409


class StaleGeneration(Conflict):
    def __init__(self, what: str, seen: int, current: dict[str, Any]) -> None:
        super().__init__(
            f"{what} was changed meanwhile: you saw generation {seen}, it is at {current['generation']}. "
            "Look at the current value and try again.",
            code="stale_generation",
            field="generation",
            current=current,
        )


class StillRunning(Conflict):
    retry_after_s = 1

    def __init__(self) -> None:
        super().__init__(
            "The first request with this Idempotency-Key is still being answered; send it again in a moment.",
            code="still_running",
        )


class StaleVersion(ControlError):
    status = 412

    def __init__(self, current: dict[str, Any]) -> None:
        super().__init__(
            "This was changed since the version that If-Match names. Look at the current value and try again.",
            code="stale_version",
            current=current,
        )


class KeyReused(ControlError):
    status = 422

    def __init__(self) -> None:
        super().__init__(
            "This Idempotency-Key came with another request before; make a new one for each new request.",
            code="idempotency_key_reused",
        )


class TooMany(ControlError):
    status = 429

    def __init__(self, message: str, *, code: str, retry_after_s: int) -> None:
        super().__init__(message, code=code)
        self.retry_after_s = retry_after_s


class DatabaseAway(ControlError):
    status = 503
    retry_after_s = 5

    def __init__(self) -> None:
        super().__init__(
            "The database can't be reached, so nothing can be read or changed at the moment; "
            "what is served goes on. Try again shortly.",
            code="database_away",
        )
