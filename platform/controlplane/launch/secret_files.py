"""Secrets of a one-machine Tandem: made once, kept in files that only their owner can read."""

from __future__ import annotations

import secrets
from pathlib import Path

from controlplane.core import secret_file


def ensure_secret(path: Path, nbytes: int = 32) -> str:
    """The secret kept in `path`; made of `nbytes` random bytes, in hex, when there is none yet."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        secret_file.write(path, secrets.token_hex(nbytes))
    return secret_file.read(path)
