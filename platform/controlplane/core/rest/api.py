"""What every REST endpoint shares: typed bodies and one error shape.

Bodies and answers are `msgspec` structs: the same ones that travel on the wire and in the console.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core.errors import ControlError, DatabaseAway, Invalid
from controlplane.core.rest.parsing import BodyTooLarge
from controlplane.core.rest.problems import PROBLEM_JSON, Problem, problem
from inference.contracts import codec

log = structlog.get_logger()

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


def body(request: Request, kind: type[T]) -> T:
    """The request's JSON as a `kind`. One that refuses fields that it does not know does so at any depth: a slip of the
    pen must not pass for the default. (What it is made of travels between releases, too, and is read with more
    tolerance there.)

    Raises:
        Invalid: with the field at fault and what was expected there.
    """
    data = request.data
    if (unstorable := _holder_of_nul(data)) is not None:
        raise Invalid(
            "Text can't contain the character U+0000.", code="invalid_body", field=".".join(unstorable) or None
        )
    try:
        wanted = msgspec.convert(data, kind, strict=True)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        raise Invalid(_plain(message), code="invalid_body", field=_field(message, where)) from error
    if isinstance(wanted, msgspec.Struct) and wanted.__struct_config__.forbid_unknown_fields:
        _require_known(data, wanted)
    return wanted


def _require_known(data: Any, wanted: Any, where: str = "") -> None:
    """Raises `Invalid` for a field in `data` that `wanted`, which was made of it, has no place for."""
    parts: Iterable[tuple[str, Any, Any]] = ()
    if isinstance(wanted, msgspec.Struct):
        known = dict(zip(wanted.__struct_encode_fields__, wanted.__struct_fields__, strict=True))
        for name in sorted(data.keys() - known.keys() - {wanted.__struct_config__.tag_field}):
            raise Invalid(f"There is no field {name!r} here.", code="invalid_body", field=f"{where}.{name}".lstrip("."))
        parts = ((f".{name}", part, getattr(wanted, known[name])) for name, part in data.items() if name in known)
    elif isinstance(wanted, dict):
        parts = ((f".{name}", part, wanted[name]) for name, part in data.items() if name in wanted)
    elif isinstance(wanted, (list, tuple)):
        parts = ((f"[{at}]", *pair) for at, pair in enumerate(zip(data, wanted, strict=True)))
    for name, part, made in parts:
        _require_known(part, made, where + name)


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
    return Response(view, status=code, headers={"Cache-Control": "no-store"})


def exception_handler(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """A `Problem` for everything that is refused; None (a 500) for what is our own fault."""
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    elif isinstance(error, RequestDataTooBig):
        error = BodyTooLarge()
    elif isinstance(error, (OperationalError, InterfaceError)):
        log.warning("the database refused or did not answer", error=str(error))
        error = DatabaseAway()
    if isinstance(error, ControlError):
        found = problem(error.status, error.code, error.message, field=error.field, current=error.current)
        return _refused(found, retry_after_s=error.retry_after_s)
    if isinstance(error, exceptions.APIException):
        response = _refused(problem(error.status_code, _code(error), _sentence(error)))
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


def _refused(found: Problem, *, retry_after_s: int | None = None) -> HttpResponse:
    headers = {"Cache-Control": "no-store"} | ({} if retry_after_s is None else {"Retry-After": str(retry_after_s)})
    return HttpResponse(codec.encode(found), status=found.status, content_type=PROBLEM_JSON, headers=headers)
