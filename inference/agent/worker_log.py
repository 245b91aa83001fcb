"""A worker's log file: the worker writes it directly, so it goes on without an agent; the agent rotates, bounds, reads.

Workers append (O_APPEND), which is what lets the agent shorten the file under them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO

TAIL_LINES = 20
TAIL_WIDTH = 300
_TAIL_BYTES = 32_768

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def open_fresh(path: Path) -> BinaryIO:
    """An empty log to append to, readable by the owner alone; what was there is kept as `<name>.1`."""
    if path.exists():
        path.replace(path.with_name(path.name + ".1"))
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def bound(path: Path, limit: int) -> None:
    """When the log has outgrown `limit` bytes, keep its last quarter. Lines written meanwhile may be lost."""
    try:
        size = path.stat().st_size
    except OSError:
        return
    if size <= limit:
        return
    kept = _last_bytes(path, limit // 4)
    with path.open("r+b") as file:
        file.truncate(0)
    with path.open("ab") as file:
        file.write(b"(older lines were dropped: the log reached its size limit)\n" + kept.split(b"\n", 1)[-1])


def tail(path: Path) -> tuple[str, ...]:
    """The last lines, made safe to show: no escape sequences or control characters, bounded in number and width.

    A progress bar that rewrites its line counts as one line, in its newest state.
    """
    try:
        text = _last_bytes(path, _TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ()
    lines = (_clean(line) for line in text.split("\n"))
    return tuple([line for line in lines if line][-TAIL_LINES:])


def _clean(line: str) -> str:
    newest = line.rstrip("\r").rsplit("\r", 1)[-1]
    return _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", newest)).rstrip()[:TAIL_WIDTH]


def _last_bytes(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - count))
        return file.read()
