"""How often Python looks for garbage, in processes that stay up."""

from __future__ import annotations

import gc

#: New objects between two looks at the young ones; of Python's own 700, a page of a large list makes dozens of looks.
YOUNG = 20_000


def settle() -> None:
    """To be called once everything is imported. What is there now stays for good and is not looked at again: each full
    look would stop the process for a tenth of a second and more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
