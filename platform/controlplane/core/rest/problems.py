"""How a refusal looks on the wire: RFC 9457 (application/problem+json) with a stable code beside its sentence."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.core.request_id import current_request_id

PROBLEM_JSON = "application/problem+json"

_TYPE = "urn:tandem:problem:"
_INSTANCE = "urn:tandem:request:"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was refused.

    type, title: of the kind of problem. detail: one sentence about this one, for people. instance: the request, as the
    log and the audit name it. code: stable, for programs. field: what to change, where it is one field. current: what
    is there now, where the request was right for something older.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    code: str
    field: str | None = None
    current: dict[str, Any] | None = None


def problem(
    status: int, code: str, detail: str, *, field: str | None = None, current: dict[str, Any] | None = None
) -> Problem:
    """The problem `code` of the request that is being answered."""
    request_id = current_request_id()
    return Problem(
        type=f"{_TYPE}{code}",
        title=code.replace("_", " ").capitalize(),
        status=status,
        detail=detail,
        instance=f"{_INSTANCE}{request_id}" if request_id else None,
        code=code,
        field=field,
        current=current,
    )
