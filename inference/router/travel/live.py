"""The requests that this router is serving now.

The place of each says what it holds where. It is left when the request's handler ends, whatever ends it, so no exit
path can leave a count behind (F17).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from inference.router.choosing.place import AllStandings, Place
from inference.router.choosing.standing import WorkerKey


@dataclass(slots=True)
class Load:
    """Sums over the live requests of one worker: answers being written, KV tokens held, prompt tokens waiting."""

    answers: int = 0
    kv_tokens: int = 0
    backlog_tokens: int = 0


class LiveRequests:
    """standings: in which they are entered. cut_short: they are being given up, because the router stops."""

    def __init__(self, standings: AllStandings) -> None:
        self._standings = standings
        self._places: dict[Place, asyncio.Timeout | None] = {}
        self.cut_short = False
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def track(self, deployment: str) -> Iterator[Place]:
        place = Place(deployment, self._standings)
        self._places[place] = None
        self._idle.clear()
        try:
            yield place
        finally:
            place.leave()
            del self._places[place]
            if not self._places:
                self._idle.set()

    def within(self, place: Place, seconds: float) -> asyncio.Timeout:
        """To be entered at once: the deadline at which a request that is tracked is given up, or when all are."""
        deadline = self._places[place] = asyncio.timeout(seconds)
        return deadline

    def loads(self) -> dict[WorkerKey, Load]:
        """Load of every worker that has any, counted anew: what its standing says, too, or there is a mistake."""
        loads: dict[WorkerKey, Load] = {}
        for place in self._places:
            if place.answering is not None:
                load = loads.setdefault(place.answering, Load())
                load.answers += 1
                load.kv_tokens += place.kv_tokens
            if place.prefilling is not None:
                loads.setdefault(place.prefilling, Load()).backlog_tokens += place.backlog_tokens
        return loads

    def in_flight(self) -> Counter[str]:
        """Live requests per deployment."""
        return Counter(place.deployment for place in self._places)

    def cut(self) -> None:
        """Give all live requests up now; each tells its client."""
        self.cut_short = True
        for deadline in self._places.values():
            if deadline is not None and not deadline.expired():
                deadline.reschedule(0.0)

    async def wait_until_idle(self) -> None:
        await self._idle.wait()
