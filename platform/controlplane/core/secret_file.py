"""Files that hold a secret: readable by their owner only, and never half-written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def read(path: Path) -> str:
    """The secret in `path`; empty where there is no such file."""
    return path.read_text().strip() if path.is_file() else ""


def write(path: Path, secret: str) -> None:
    """Replace `path` by a file of mode 0600 with `secret` in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp makes the file with mode 0600, so the secret is never readable by others, not even for a moment.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{secret}\n")
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
