"""What every REST endpoint shares: typed bodies and one error shape.

Bodies and answers are `msgspec` structs: the same ones that travel on the wire and in the console.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import set_rollback

from controlplane.core.errors import ControlError, Invalid

T = TypeVar("T")


def body(request: Request, kind: type[T]) -> T:
    """The request's JSON as a `kind`.

    Raises:
        Invalid: with the field at fault and what was expected there.
    """
    try:
        return msgspec.convert(request.data, kind, strict=True)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        raise Invalid(f"{message}.", code="invalid_body", field=where.rstrip("`") or None) from error


def answer(view: Any, code: int = status.HTTP_200_OK) -> Response:
    """A struct, or a list of structs, as a response."""
    return Response(msgspec.to_builtins(view), status=code)


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """`{"error": {code, message, field, current}}` for everything that is refused."""
    if isinstance(error, ControlError):
        set_rollback()
        return _refusal(error.status, error.code, error.message, error.field, error.current)
    if isinstance(error, exceptions.APIException):
        set_rollback()
        codes = error.get_codes()
        code = codes if isinstance(codes, str) else "invalid"
        detail = error.detail if isinstance(error.detail, str) else str(error.detail)
        return _refusal(error.status_code, code, detail)
    return None


def _refusal(
    status_code: int,
    code: str,
    message: str,
    field: str | None = None,
    current: dict[str, Any] | None = None,
) -> Response:
    content = {"code": code, "message": message, "field": field, "current": current}
    return Response({"error": content}, status=status_code)
