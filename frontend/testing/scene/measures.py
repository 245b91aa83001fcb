"""Times and sizes of everything that is made up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

GIB = 1024**3

#: KV blocks of each worker.
BLOCKS = 1024


def iso(ago_s: float = 0) -> str:
    return (datetime.now(UTC) - timedelta(seconds=ago_s)).isoformat()
