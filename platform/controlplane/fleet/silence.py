"""When is a node lost? Pure rules; every time is an arrival time by the control plane's own clock (F14)."""

from __future__ import annotations

from datetime import datetime, timedelta


def watching_since(*, since: datetime, swept_at: datetime, now: datetime, limit: timedelta) -> datetime:
    """Since when the nodes have been watched without a pause, seen from the sweep at `now`.

    A gap between two sweeps means that the control plane was paused, or that it or the nodes could not reach Redis. A
    gap of more than half the limit begins a new watch: nodes then get the whole limit to be heard again, instead of
    being taken for lost all at once (F12). Half, since they need a moment more than we to reconnect. A clock that went
    back begins a new watch too.
    """
    return since if timedelta(0) <= now - swept_at <= limit / 2 else now


def is_silent(*, last_heard: datetime, since: datetime, now: datetime, limit: timedelta) -> bool:
    """Whether nothing was heard for longer than `limit` while somebody was listening.

    A time that lies a little ahead was read while this look was under way, or by another host's clock, and is as fresh
    as can be. One further ahead than `limit` was read before our clock went back, and says nothing any more.
    """
    heard = since if last_heard - now > limit else max(last_heard, since)
    return now - heard > limit
