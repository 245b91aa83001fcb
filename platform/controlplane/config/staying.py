"""How Python runs in processes that stay up and serve with several threads."""

from __future__ import annotations

import gc
import sys

#: New objects between two looks at the young ones; of Python's own 700, a page of a large list makes dozens of looks.
YOUNG = 20_000

#: How long one thread may keep the others from running, in seconds. At Python's own 5 ms, one that plans slows the one
#: that takes reports down to a tenth: it gives way at each of its many short calls and waits its turn.
SWITCH_INTERVAL_S = 0.0002


def settle() -> None:
    """To be called once everything is imported. What is there now stays for good and is not looked at again: each full
    look would stop the process for a tenth of a second and more."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
