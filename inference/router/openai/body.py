"""Bodies of requests: JSON objects of known fields, refused in the words of OpenAI's API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from inference.router.errors import ApiError, bad_request

_AT_FIELD = re.compile(r" - at `\$\.?(?P<field>[^`]*)`$")
_MISSING_FIELD = re.compile(r"missing required field `(?P<field>[^`]*)`")

B = TypeVar("B", bound=msgspec.Struct)


def read_body(body: bytes, kind: type[B], not_offered: Mapping[str, tuple[object, ...]]) -> B:
    """not_offered: fields that are refused, with the values of each that ask for nothing (besides null). Fields that
    neither it nor `kind` has are ignored.

    Raises:
        ApiError: 400 with the field at fault.
    """
    fields = decode_object(body)
    for name, neutral in not_offered.items():
        value = fields.get(name)
        if value is not None and value not in neutral:
            raise bad_request(f"{name} is not supported here.", name, "unsupported_parameter")
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from error


def decode_object(body: bytes) -> dict[str, object]:
    """Raises `ApiError`: 400."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"The body is not valid JSON: {error}.") from error
    except RecursionError:
        raise bad_request("The body is nested too deeply.") from None
    if not isinstance(fields, dict):
        raise bad_request(f"The body must be a JSON object, not {kind_of(fields)}.")
    return fields


def kind_of(value: object) -> str:
    """What `value` is, in words of JSON."""
    names = {dict: "an object", list: "an empty list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _invalid(message: str) -> ApiError:
    missing = _MISSING_FIELD.search(message)
    at = _AT_FIELD.search(message)
    path = at["field"] if at else ""
    if missing:
        path = f"{path}.{missing['field']}" if path else missing["field"]
        return bad_request(f"{path} is missing.", path)
    return bad_request(f"{path or 'The body'}: {_AT_FIELD.sub('', message)}.", path or None)
