"""A worker's log files: the worker writes them directly, so it goes on without an agent; the agent rotates and reads.

    worker.log              what the newest run writes now          worker.older.log             and wrote before
    worker.previous.log     the last part of the run before it      worker.previous.older.log    and what came before

A run that outgrows its limit is moved on from the first column to the second, so each run keeps between one and two
limits of its newest output. Workers append (O_APPEND), which is what lets the agent empty the file under them.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import BinaryIO

from inference.contracts.states import LogRun

TAIL_LINES = 20
TAIL_WIDTH = 300
_TAIL_BYTES = 32_768

#: Most lines, characters of a line, and bytes of a log that one question is answered with.
READ_LINES = 2000
READ_WIDTH = 2000
_READ_BYTES = 2_000_000

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def open_fresh(path: Path) -> BinaryIO:
    """An empty log to append to, readable by the owner alone; what the last run wrote becomes the previous run's."""
    previous = path.with_name(f"{path.stem}.previous.log")
    for newest, kept in ((_older(path), _older(previous)), (path, previous)):
        kept.unlink(missing_ok=True)
        if newest.exists():
            newest.replace(kept)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def rotate(path: Path, limit: int) -> None:
    """Move a log that has outgrown `limit` bytes to the older part of its run. The worker writes on to the same file,
    so it is copied and then emptied; a line written in the moment between the two is lost."""
    try:
        if path.stat().st_size <= limit:
            return
    except OSError:
        return
    with path.open("rb") as source, open(_older(path), "wb", opener=_private) as kept:
        shutil.copyfileobj(source, kept)
    os.truncate(path, 0)


def tail(path: Path) -> tuple[str, ...]:
    """The last lines, made safe to show: no escape sequences or control characters, bounded in number and width.

    A progress bar that rewrites its line counts as one line, in its newest state.
    """
    return _last_lines(path, TAIL_LINES, TAIL_WIDTH, _TAIL_BYTES)


def read(path: Path, run: LogRun, lines: int) -> tuple[str, ...] | None:
    """The last `lines` lines (at most `READ_LINES`) of a run, oldest first, as safe to show as those of `tail`; None
    when this node keeps none of that run. path: the worker's `StateDir.log_file`."""
    if run is LogRun.PREVIOUS:
        path = path.with_name(f"{path.stem}.previous.log")
    if not path.exists():
        return None
    return _last_lines(path, max(1, min(lines, READ_LINES)), READ_WIDTH, _READ_BYTES)


def _last_lines(path: Path, lines: int, width: int, most: int) -> tuple[str, ...]:
    text = _last_bytes(path, most)
    if len(text) < most:
        text = _last_bytes(_older(path), most - len(text)) + text
    cleaned = (_clean(line, width) for line in text.decode(errors="replace").split("\n"))
    return tuple([line for line in cleaned if line][-lines:])


def _clean(line: str, width: int) -> str:
    newest = line.rstrip("\r").rsplit("\r", 1)[-1]
    return _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", newest)).rstrip()[:width]


def _last_bytes(path: Path, count: int) -> bytes:
    """Empty for a file that is not there: what can't be read can't be shown."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - count))
            return file.read()
    except OSError:
        return b""


def _older(path: Path) -> Path:
    return path.with_name(f"{path.stem}.older.log")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
