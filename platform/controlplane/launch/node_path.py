"""Prints the PATH on which the console's build finds Node.js: the machine's own if it is new enough, else the wheel's.

Standard library only: it runs before anything is configured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

#: Vite 8 needs Node.js 20.19 and npm 11.
NEEDED = {"node": (20, 19), "npm": (11, 0)}


def version_of(program: str) -> tuple[int, int]:
    """(0, 0) when it is not there."""
    path = shutil.which(program)
    if path is None:
        return (0, 0)
    printed = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=30).stdout
    match = re.search(r"(\d+)\.(\d+)", printed)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def node_path() -> str:
    path = os.environ.get("PATH", os.defpath)
    if all(version_of(program) >= needed for program, needed in NEEDED.items()):
        return path
    return os.pathsep.join([str(Path(sys.executable).parent), path])


if __name__ == "__main__":
    sys.stdout.write(node_path())
