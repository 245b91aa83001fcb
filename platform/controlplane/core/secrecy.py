"""Keeping secrets out of what is written down or shown again: the audit, logs, answers to trial runs."""

from __future__ import annotations

import re
from typing import Any

MASK = "***"

#: Names of fields that hold a secret. "tokens" are counts, and a "key_id" only names a key.
_SECRET_NAME = re.compile(
    r"(.*_)?(password|passwd|passphrase|secret|token|key|cookie|credentials?|authorization|digest|csrf)", re.IGNORECASE
)

#: What Tandem's own secrets look like, wherever they stand: serving keys, management tokens, join tokens.
_SECRET_TEXT = re.compile(r"\b(sk-tandem-|tdm-|tandem-join-)[A-Za-z0-9_-]{20,}")

#: The password in an address ("redis://:secret@host").
_URL_PASSWORD = re.compile(r"(\w://[^/\s:@]*:)[^/\s@]+@")


def masked(value: Any) -> Any:
    """`value` (of JSON) with every secret in it replaced by a mask: by the name of its field, or by its looks."""
    if isinstance(value, dict):
        return {name: _masked_field(str(name), part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(part) for part in value]
    if isinstance(value, str):
        return _URL_PASSWORD.sub(rf"\1{MASK}@", _SECRET_TEXT.sub(rf"\1{MASK}", value))
    return value


def _masked_field(name: str, value: Any) -> Any:
    # What is no text can't be a secret, and whether there is one is worth knowing.
    if isinstance(value, str) and value and _SECRET_NAME.fullmatch(name):
        return MASK
    return masked(value)
