"""What the priority class of a key means: its rank in this router's queue, and at workers."""

from __future__ import annotations

from inference.contracts.states import PriorityClass
from inference.router.openai.sampling import LARGEST

#: The smaller number goes first.
RANKS = {PriorityClass.HIGH: -1, PriorityClass.STANDARD: 0, PriorityClass.LOW: 1}

#: Of all the priorities that clients can name.
_SPAN = 2 * LARGEST + 1


def worker_priority(rank: int, named: int) -> int:
    """The priority of a request at workers. named: by its client, from -LARGEST to LARGEST; it orders requests within
    a class and never lifts one out of it."""
    return rank * _SPAN + named
