"""What every REST endpoint shares: typed bodies and one error shape.

Bodies and answers are `msgspec` structs: the same ones that travel on the wire and in the console.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import set_rollback

from controlplane.core.errors import ControlError, DatabaseAway, Invalid, TooMany

T = TypeVar("T")

_NAMED_FIELD = re.compile(r"field `([^`]+)`")

#: JSON's types in words, as `msgspec` names them.
_TYPES = {
    "int": "a whole number",
    "float": "a decimal number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was refused.

    code: stable, for programs. message: one sentence, for people. field: what to change, where it is one field.
    current: what is there now, where the request was right for something older.
    """

    code: str
    message: str
    field: str | None = None
    current: dict[str, Any] | None = None


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Body of every answer that refuses."""

    error: Refusal


def body(request: Request, kind: type[T]) -> T:
    """The request's JSON as a `kind`.

    Raises:
        Invalid: with the field at fault and what was expected there.
    """
    data = request.data
    if (unstorable := _holder_of_nul(data)) is not None:
        raise Invalid(
            "Text can't contain the character U+0000.", code="invalid_body", field=".".join(unstorable) or None
        )
    try:
        return msgspec.convert(data, kind, strict=True)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        raise Invalid(_plain(message), code="invalid_body", field=_field(message, where)) from error


def _holder_of_nul(value: Any) -> tuple[str, ...] | None:
    """The path of the first text with a U+0000 in it: PostgreSQL can't store that."""
    if isinstance(value, str):
        return () if "\0" in value else None
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        if (inner := _holder_of_nul(part)) is not None:
            return (str(name), *inner)
    return None


def _plain(message: str) -> str:
    """`msgspec`'s message as a sentence for people."""
    if named := _NAMED_FIELD.search(message):
        field = named.group(1)
        return f"{field!r} is missing." if "missing" in message else f"There is no field {field!r} here."
    expected = re.fullmatch(r"Expected `([^`]+)`, got `([^`]+)`", message)
    if expected is None:
        return f"{message}."
    wanted, got = (" or ".join(_TYPES.get(name, name) for name in types.split(" | ")) for types in expected.groups())
    return f"{wanted[0].upper()}{wanted[1:]} is needed here, not {got}."


def _field(message: str, where: str) -> str | None:
    """The path of the field that msgspec's `message` is about; `where` is the rest of its path ("`$.a.b`")."""
    named = _NAMED_FIELD.search(message)
    path = [where.rstrip("`").lstrip("."), named.group(1) if named else ""]
    return ".".join(part for part in path if part) or None


def answer(view: Any, code: int = status.HTTP_200_OK) -> Response:
    """A struct, or a list of structs, as a response."""
    # No cache may keep what needs a login, least of all a key that is shown once.
    return Response(msgspec.to_builtins(view), status=code, headers={"Cache-Control": "no-store"})


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """An `ErrorAnswer` for everything that is refused; None (a 500) for what is our own fault."""
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    elif isinstance(error, (OperationalError, InterfaceError)):
        error = DatabaseAway()
    if isinstance(error, ControlError):
        set_rollback()
        response = _refused(
            error.status, Refusal(code=error.code, message=error.message, field=error.field, current=error.current)
        )
        if isinstance(error, TooMany):
            response["Retry-After"] = str(error.retry_after_s)
        return response
    if isinstance(error, exceptions.APIException):
        set_rollback()
        response = _refused(error.status_code, Refusal(code=_code(error), message=_sentence(error)))
        if scheme := getattr(error, "auth_header", None):
            response["WWW-Authenticate"] = scheme
        return response
    return None


def _code(error: exceptions.APIException) -> str:
    codes = error.get_codes()
    return codes if isinstance(codes, str) else "invalid"


def _sentence(error: exceptions.APIException) -> str:
    detail = error.detail
    text = str(detail) if isinstance(detail, str) else "; ".join(str(part) for part in detail)
    return text if text.endswith(".") else f"{text}."


def _refused(status_code: int, refusal: Refusal) -> Response:
    return answer(ErrorAnswer(error=refusal), status_code)
