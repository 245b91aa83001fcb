"""How often a process that serves looks for reference cycles."""

from __future__ import annotations

import gc

#: Objects made and not freed until the young are looked through; so many times that until the older are.
_YOUNG, _OLDER = 20_000, 20


def collect_seldom() -> None:
    """Call it once everything that stays for good is there: that is never looked through again.

    What a request leaves behind is freed by reference counts, but for a few cycles; with Python's usual thresholds the
    collector took a tenth of a busy router's time to find them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)
