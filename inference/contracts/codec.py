"""The one codec of every wire between Tandem's processes: JSON by msgspec, checked against the message type."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


class CodecError(ValueError):
    """A message could not be read: the text names the field and what was expected there."""


def encode(message: Any) -> bytes:
    """Write `message` (a contracts struct) as one line of JSON without a line break."""
    return _encoder.encode(message)


def encode_text(message: Any) -> str:
    """`encode` for carriers that want text (Celery arguments, Redis hashes, database columns)."""
    return _encoder.encode(message).decode()


def decode(data: bytes | str, kind: type[T]) -> T:
    """Read one `kind` from `data`.

    Unknown fields are ignored (a newer peer may send them).

    Raises:
        CodecError: `data` is not JSON, or a field is missing or of another type.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise CodecError(f"not a valid {kind.__name__}: {error}") from error
