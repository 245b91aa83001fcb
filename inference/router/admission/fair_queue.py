"""Requests that wait while every worker is busy: in which order they go on, and for how long they may wait.

Order: the class of smaller number first. Within a class keys take turns by what they ask for, so that a key with many
or long requests does not hold up the others (start-time fair queuing: Goyal, Vin, Cheng, SIGCOMM 1996).
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from inference.router.errors import ApiError, unavailable

#: Code of what is refused after its wait, or because too many wait.
BUSY = "busy"

_LOOKS_EVERY_S = 0.1  # requests of other routers end unseen
_LONGEST_ADVICE_S = 60
_LEARNS = 0.2


@dataclass(frozen=True, slots=True)
class Claim:
    """Who waits. key_id: of the serving key. rank: class; smaller goes first. tokens: what is asked for."""

    key_id: str
    rank: int = 0
    tokens: int = 1


@dataclass(order=True, slots=True)
class _Waiting:
    rank: int
    start: float
    number: int
    key_id: str = field(compare=False)
    called: asyncio.Event = field(compare=False, default_factory=asyncio.Event)


class FairOrder:
    """Gives each claim its place: (class, virtual start). Virtual time passes as claims are served."""

    def __init__(self) -> None:
        self._time = 0.0
        self._ends: dict[str, float] = {}

    def start(self, claim: Claim) -> float:
        start = max(self._time, self._ends.get(claim.key_id, 0.0))
        self._ends[claim.key_id] = start + max(1, claim.tokens)
        return start

    def served(self, start: float) -> None:
        self._time = max(self._time, start)
        self._ends = {key: end for key, end in self._ends.items() if end > self._time}

    def forget_all_but(self, keys: Collection[str]) -> None:
        self._ends = {key: end for key, end in self._ends.items() if key in keys}


class WaitingRoom:
    """Waiting requests of one deployment.

    most: how many may wait, of one key half of them. longest_s: how long each. retry_after_s: what is advised while
    nothing is known of how quickly requests end.
    """

    def __init__(self, most: int, longest_s: float, retry_after_s: int) -> None:
        self._most = most
        self._longest_s = longest_s
        self._retry_after_s = retry_after_s
        self._order = FairOrder()
        self._waiting: list[_Waiting] = []
        self._of_key: Counter[str] = Counter()
        self._numbers = 0
        self._freed_at: float | None = None
        self._freed_every_s: float | None = None
        self._look: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def advice_s(self) -> int:
        """Seconds until a request that comes then may find room: those that wait, at the pace in which room came."""
        if self._freed_every_s is None:
            return self._retry_after_s
        return max(1, min(_LONGEST_ADVICE_S, math.ceil(self._freed_every_s * (len(self._waiting) + 1))))

    async def wait(self, claim: Claim, patience: Patience) -> None:
        """Until it is this request's turn to try.

        Raises:
            ApiError: 503 when too many wait, or it has waited too long; 429 when its key has too many that wait.
        """
        self._require_seat(claim)
        loop = asyncio.get_running_loop()
        mine = self._sit_down(claim, patience)
        patience.since = loop.time() if patience.since is None else patience.since
        try:
            async with asyncio.timeout_at(patience.since + self._longest_s):
                await mine.called.wait()
        except TimeoutError:
            if mine.called.is_set():
                self.has_room()  # called and late at the same time: the call is for the next
            raise self._busy("Every worker is busy, and was for as long as a request may wait.") from None
        except asyncio.CancelledError:
            if mine.called.is_set():
                self.has_room()
            raise
        finally:
            self._stand_up(mine)

    def freed(self) -> None:
        """A request has given back what it held."""
        now = asyncio.get_running_loop().time()
        if self._freed_at is not None:
            gap = now - self._freed_at
            known = self._freed_every_s
            self._freed_every_s = gap if known is None else known + _LEARNS * (gap - known)
        self._freed_at = now
        self.has_room()

    def has_room(self) -> None:
        """Call the next that waits, to try."""
        for waiting in self._waiting[:1]:
            heapq.heappop(self._waiting)
            self._order.served(waiting.start)
            waiting.called.set()

    def forget_all_but(self, keys: Collection[str]) -> None:
        """Let go of what all other keys had of their turns; those of them that wait go on waiting."""
        self._order.forget_all_but(keys)

    def _require_seat(self, claim: Claim) -> None:
        if len(self._waiting) >= self._most:
            raise self._busy("Every worker is busy, and as many requests wait as may.")
        if 2 * self._of_key[claim.key_id] >= max(2, self._most):
            raise ApiError(
                429,
                "Every worker is busy, and as many requests of this API key wait as may.",
                code="too_many_waiting",
                retry_after_s=self.advice_s,
            )

    def _busy(self, message: str) -> ApiError:
        return unavailable(message, self.advice_s, BUSY)

    def _sit_down(self, claim: Claim, patience: Patience) -> _Waiting:
        if patience.start is None:
            patience.start, patience.number = self._order.start(claim), self._numbers
            self._numbers += 1
        mine = _Waiting(claim.rank, patience.start, patience.number, claim.key_id)
        heapq.heappush(self._waiting, mine)
        self._of_key[claim.key_id] += 1
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOKS_EVERY_S, self._look_again)
        return mine

    def _stand_up(self, mine: _Waiting) -> None:
        if not mine.called.is_set():
            self._waiting.remove(mine)
            heapq.heapify(self._waiting)
        self._of_key[mine.key_id] -= 1
        if not self._of_key[mine.key_id]:
            del self._of_key[mine.key_id]

    def _look_again(self) -> None:
        self._look = None
        if self._waiting:
            self.has_room()
            self._look = asyncio.get_running_loop().call_later(_LOOKS_EVERY_S, self._look_again)


@dataclass(slots=True)
class Patience:
    """What a request keeps while it waits and tries in turn: its place, and since when."""

    since: float | None = None
    start: float | None = None
    number: int = 0
