"""Secrets of a one-machine Tandem: made once, kept in files that only their owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def ensure_secret(path: Path, nbytes: int = 32) -> str:
    """The secret kept in `path`; made of `nbytes` random bytes when there is none yet."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        write_private(path, secrets.token_hex(nbytes))
    return path.read_text().strip()


def write_private(path: Path, content: str) -> None:
    """Replace `path` by `content`, readable by its owner alone, never half written."""
    partial = path.with_name(f".{path.name}.new")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
    partial.replace(path)
