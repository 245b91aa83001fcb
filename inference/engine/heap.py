"""Memory that this process has freed, back to the system.

The C library keeps what was freed for later: after weights were read, converted and laid out anew, up to half of their
size. A worker starts once and runs for days, so it is handed back.
"""

from __future__ import annotations

import ctypes


def give_back_freed() -> None:
    """Takes some milliseconds. Does nothing with a C library that can't (glibc can)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
