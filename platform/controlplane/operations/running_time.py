"""How long has an operation run? Pure; wall clocks may jump, and the control plane may have been paused."""

from __future__ import annotations

from datetime import datetime


def running_seconds(*, counted_s: float, seen_at: datetime, now: datetime, most_s: float) -> float:
    """Seconds that it ran, at the look taken at `now`.

    counted_s: at the look before, which was at `seen_at`. Between two looks at most `most_s` count: more means that the
    clock jumped or that nobody was looking, and neither is a reason to give up. A clock that went back counts nothing.
    """
    return counted_s + min(most_s, max(0.0, (now - seen_at).total_seconds()))
