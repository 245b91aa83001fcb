"""ETag and If-Match: whoever changes something may name the version that they saw.

Writers that name versions of one address take turns there, so of two that saw the same version one is refused.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from django.db import connection

from controlplane.core.errors import Invalid, StaleVersion

ANY = "*"


def etag(version: Any) -> str:
    """The entity tag of `version`: a number stands for itself, anything else for its digest."""
    if isinstance(version, int) and not isinstance(version, bool):
        return f'"{version}"'
    return f'"{hashlib.sha256(msgspec.json.encode(version, order="sorted")).hexdigest()[:32]}"'


def take_turns(address: str) -> None:
    """Wait until no other transaction that named a version of `address` runs. SQLite has one writer anyway."""
    if connection.vendor == "postgresql":
        number = int.from_bytes(hashlib.sha256(address.encode()).digest()[:8], signed=True)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])


def require(if_match: str, current: str, view: Any) -> None:
    """
    Raises:
        StaleVersion: none of the tags in the header `if_match` is `current`; `view` is what is there now.
        Invalid: the header holds no tags.
    """
    tags = [tag.strip() for tag in if_match.split(",")]
    if tags == [ANY] or current in tags:
        return
    if not all(tag.removeprefix("W/").startswith('"') and tag.endswith('"') for tag in tags):
        raise Invalid('If-Match is an ETag in its quotes, as GET answered it: If-Match: "12".', code="invalid_header")
    raise StaleVersion(msgspec.to_builtins(view))
