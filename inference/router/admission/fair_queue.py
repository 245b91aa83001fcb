"""Requests that wait while every worker is busy: for how long they may, how many, and who is called when there is room.

Of classes the higher one, within a class keys in turn (`fair_order.py`), so that a key with many or long requests does
not hold up the others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from dataclasses import dataclass

from inference.router.admission.fair_order import Claim, FairOrder, Turn
from inference.router.errors import ApiError, unavailable

#: Code of what is refused after its wait, or because too many wait.
BUSY = "busy"

_LOOKS_EVERY_S = 0.1  # requests of other routers end unseen
_LONGEST_ADVICE_S = 60
_LEARNS = 0.2


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
        self._calls: dict[Turn, asyncio.Event] = {}
        self._freed_at: float | None = None
        self._freed_every_s: float | None = None
        self._look: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def advice_s(self) -> int:
        """Seconds until a request that comes then may find room: those that wait, at the pace in which room came."""
        if self._freed_every_s is None:
            return self._retry_after_s
        return max(1, min(_LONGEST_ADVICE_S, math.ceil(self._freed_every_s * (len(self._calls) + 1))))

    async def wait(self, claim: Claim, patience: Patience) -> None:
        """Until it is this request's turn to try.

        Raises:
            ApiError: 503 when too many wait, or it has waited too long; 429 when its key has too many that wait.
        """
        self._require_seat(claim)
        loop = asyncio.get_running_loop()
        patience.since = loop.time() if patience.since is None else patience.since
        turn = patience.turn = patience.turn or self._order.come(claim)
        called = self._sit_down(turn)
        try:
            async with asyncio.timeout_at(patience.since + self._longest_s):
                await called.wait()
        except TimeoutError:
            self._give_up(turn, called)
            raise self._busy("Every worker is busy, and was for as long as a request may wait.") from None
        except asyncio.CancelledError:
            self._give_up(turn, called)
            raise

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
        turn = self._order.call()
        if turn is not None:
            self._calls.pop(turn).set()

    def forget_all_but(self, keys: Collection[str]) -> None:
        """Let go of what all other keys had of their turns; those of them that wait go on waiting."""
        self._order.forget_all_but(keys)

    def _require_seat(self, claim: Claim) -> None:
        if len(self._calls) >= self._most:
            raise self._busy("Every worker is busy, and as many requests wait as may.")
        if 2 * self._order.of_key(claim.key_id) >= max(2, self._most):
            raise ApiError(
                429,
                "Every worker is busy, and as many requests of this API key wait as may.",
                code="too_many_waiting",
                retry_after_s=self.advice_s,
            )

    def _busy(self, message: str) -> ApiError:
        return unavailable(message, self.advice_s, BUSY)

    def _sit_down(self, turn: Turn) -> asyncio.Event:
        self._order.wait(turn)
        called = self._calls[turn] = asyncio.Event()
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOKS_EVERY_S, self._look_again)
        return called

    def _give_up(self, turn: Turn, called: asyncio.Event) -> None:
        self._order.give_up(turn)
        self._calls.pop(turn, None)
        if called.is_set():
            self.has_room()  # called and late at the same time: the call is for the next

    def _look_again(self) -> None:
        self._look = None
        if self._calls:
            self.has_room()
            self._look = asyncio.get_running_loop().call_later(_LOOKS_EVERY_S, self._look_again)


@dataclass(slots=True)
class Patience:
    """What a request keeps while it waits and tries in turn: its place, and since when."""

    since: float | None = None
    turn: Turn | None = None
