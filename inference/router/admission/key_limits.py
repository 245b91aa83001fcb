"""How much one serving key may ask: requests in any minute, and requests at one time.

Counted by this router process alone: behind n routers a key gets up to n times its limits. That costs no round trip to
anywhere and holds with Redis away.

Both counts are those of sets of requests. A request is in the set of live ones while its handler runs, whatever ends it
(F17); it is in the set of recent ones for a minute, unless it was refused, by these limits or by anything behind them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, takewhile

from inference.contracts.routing import ServingKeyEntry
from inference.router.errors import ApiError

WINDOW_S = 60.0


class Admission:
    """One request that its key's limits let through. refused: set when it was refused later, so that it costs
    nothing."""

    __slots__ = ("refused",)

    def __init__(self) -> None:
        self.refused = False


@dataclass(frozen=True, slots=True)
class Standing:
    """How a key stands with its rate: requests in any minute, those that it may still send at once, seconds until it
    may send all of them again."""

    limit: int
    remaining: int
    reset_s: float


class KeyLimits:
    """retry_after_s: what a key with too many requests at one time is advised. Times are of a monotonic clock."""

    def __init__(self, retry_after_s: int) -> None:
        self._retry_after_s = retry_after_s
        self._live: dict[str, set[Admission]] = {}
        self._recent: dict[str, dict[Admission, float]] = {}

    @contextmanager
    def admit(self, key: ServingKeyEntry, now: float) -> Iterator[Admission]:
        """Let one request of `key` run inside the block.

        Raises:
            ApiError: 429, with the seconds until there is room.
        """
        self._require_room(key)
        if key.requests_per_minute is not None:
            self._require_turn(key.key_id, key.requests_per_minute, now)
        admission = Admission()
        self._live.setdefault(key.key_id, set()).add(admission)
        if key.requests_per_minute is not None:
            self._recent.setdefault(key.key_id, {})[admission] = now
        try:
            yield admission
        finally:
            self._leave(key.key_id, admission)

    def standing(self, key: ServingKeyEntry, now: float) -> Standing | None:
        """None: the key has no rate."""
        limit = key.requests_per_minute
        if limit is None:
            return None
        self._drop_old(key.key_id, now)
        recent = self._recent.get(key.key_id, {})
        newest = next(reversed(recent.values()), now - WINDOW_S)
        return Standing(limit, max(0, limit - len(recent)), newest + WINDOW_S - now)

    def live(self, key_id: str) -> int:
        """Requests of this key that run now."""
        return len(self._live.get(key_id, ()))

    def recent(self, key_id: str) -> int:
        """Requests of this key that count against its rate; those of keys without one are not remembered."""
        return len(self._recent.get(key_id, ()))

    def forget_old(self, now: float) -> None:
        """Drop what no longer counts, also of keys that nobody uses any more."""
        for key_id in list(self._recent):
            self._drop_old(key_id, now)

    def _require_room(self, key: ServingKeyEntry) -> None:
        if key.max_concurrent is not None and self.live(key.key_id) >= key.max_concurrent:
            raise ApiError(
                429,
                f"This API key may have {key.max_concurrent} requests at one time, and they are running.",
                code="concurrency_limit_exceeded",
                retry_after_s=self._retry_after_s,
            )

    def _require_turn(self, key_id: str, limit: int, now: float) -> None:
        self._drop_old(key_id, now)
        recent = self._recent.get(key_id, {})
        if (surplus := len(recent) - limit) < 0:
            return
        # The limit may have been lowered meanwhile: then more than one has to grow old.
        decisive = next(islice(recent.values(), surplus, None))
        raise ApiError(
            429,
            f"This API key may send {limit} requests in a minute, and has.",
            code="rate_limit_exceeded",
            retry_after_s=max(1, math.ceil(decisive + WINDOW_S - now)),
        )

    def _leave(self, key_id: str, admission: Admission) -> None:
        live = self._live[key_id]
        live.discard(admission)
        if not live:
            del self._live[key_id]
        if admission.refused and (recent := self._recent.get(key_id)):
            recent.pop(admission, None)

    def _drop_old(self, key_id: str, now: float) -> None:
        """Recent ones are in the order of their times: the clock is monotonic."""
        recent = self._recent.get(key_id)
        if recent is None:
            return
        old = list(takewhile(lambda admission: recent[admission] <= now - WINDOW_S, recent))
        for admission in old:
            del recent[admission]
        if not recent:
            del self._recent[key_id]
