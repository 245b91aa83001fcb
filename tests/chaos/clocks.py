"""Wall clocks that can be set while processes run, one for each node and one for the control plane.

A small library is preloaded into them (`clock.c`). Where the machine has no C compiler, clocks stay right.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")


class Clocks:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._library = _built(folder)

    @property
    def can_be_set(self) -> bool:
        return self._library is not None

    def environment(self, who: str) -> dict[str, str]:
        """What a process needs to live by the clock of `who`."""
        self.set(who, 0)
        if self._library is None:
            return {}
        return {"LD_PRELOAD": str(self._library), "TANDEM_CHAOS_CLOCK": str(self._folder / who)}

    def set(self, who: str, offset_s: int) -> None:
        """In place: the file is mapped into processes."""
        path = self._folder / who
        path.touch()
        with path.open("r+b") as file:
            file.write(offset_s.to_bytes(8, "little", signed=True))


def _built(folder: Path) -> Path | None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library = folder / "clock.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True)
    return library
