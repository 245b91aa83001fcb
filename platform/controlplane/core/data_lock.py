"""One `manage.py up` or `restore` at a time on one data folder: a second would stop what the first has started, or
write under it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Running(Exception):
    """Another process holds the data folder."""


@contextmanager
def only_one(data: Path) -> Iterator[None]:
    """Hold `data` until the block is left. A process that is killed lets go of it.

    Raises:
        Running: another process holds it.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(data / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Running(f"Tandem is running already on {data}; stop it first, or set TANDEM_DATA.") from error
        yield
    finally:
        os.close(handle)
