"""What this router has under way, request by request and summed up for every worker.

The place of a request says what it holds where. Places are entered in the workers' standings as they change and taken
out again when their handler ends, whatever ends it, so no exit path can leave a count behind (F17).
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from inference.router.choosing.standing import Standing, WorkerKey

Standings = defaultdict[WorkerKey, Standing]


@dataclass(slots=True, eq=False)
class Place:
    """Where one live request stands.

    kv_tokens: prompt and longest answer, held on the answering worker. backlog_tokens: uncached prompt tokens that the
    prefilling worker (the answering one for a local prefill) has not yet turned into a first token. deadline: when the
    request is given up.
    """

    deployment: str
    standings: Standings
    answering: WorkerKey | None = None
    kv_tokens: int = 0
    prefilling: WorkerKey | None = None
    backlog_tokens: int = 0
    deadline: asyncio.Timeout | None = None

    def move_to(self, answering: WorkerKey, kv_tokens: int) -> None:
        """A new attempt, with `kv_tokens` as estimated; whatever was held elsewhere is not any more."""
        self.leave()
        self.answering, self.kv_tokens = answering, kv_tokens
        standing = self.standings[answering]
        standing.answers += 1
        standing.kv_tokens += kv_tokens

    def dispatched(self, kv_tokens: int, prefilling: WorkerKey, backlog_tokens: int) -> None:
        """The ticket told the true numbers, and the prompt waits at `prefilling`."""
        if self.answering is None:
            raise RuntimeError("a request is dispatched that has no answering worker")
        self.standings[self.answering].kv_tokens += kv_tokens - self.kv_tokens
        self.kv_tokens = kv_tokens
        self.prefilling, self.backlog_tokens = prefilling, backlog_tokens
        self.standings[prefilling].backlog_tokens += backlog_tokens

    def first_token_came(self) -> None:
        if self.prefilling is not None:
            self.standings[self.prefilling].backlog_tokens -= self.backlog_tokens
            self.prefilling, self.backlog_tokens = None, 0

    def leave(self) -> None:
        """Nothing is held anywhere (any more)."""
        self.first_token_came()
        if self.answering is not None:
            standing = self.standings[self.answering]
            standing.answers -= 1
            standing.kv_tokens -= self.kv_tokens
            self.answering, self.kv_tokens = None, 0


@dataclass(slots=True)
class Load:
    """Sums over the live requests of one worker: answers being written, KV tokens held, prompt tokens waiting."""

    answers: int = 0
    kv_tokens: int = 0
    backlog_tokens: int = 0


class LiveRequests:
    """The requests that this router is serving now, and the standing of the workers.

    cut_short: they are being given up, because the router stops.
    """

    def __init__(self) -> None:
        self.standings: Standings = defaultdict(Standing)
        self._places: set[Place] = set()
        self.cut_short = False
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def track(self, deployment: str) -> Iterator[Place]:
        place = Place(deployment, self.standings)
        self._places.add(place)
        self._idle.clear()
        try:
            yield place
        finally:
            place.leave()
            self._places.discard(place)
            if not self._places:
                self._idle.set()

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

    def forget_all_but(self, workers: Collection[WorkerKey]) -> None:
        """Drop what is known of workers that are gone and that no request is at any more."""
        for worker in [key for key, standing in self.standings.items() if key not in workers and not standing.in_use]:
            del self.standings[worker]

    def in_flight(self) -> Counter[str]:
        """Live requests per deployment."""
        return Counter(place.deployment for place in self._places)

    def cut(self) -> None:
        """Give all live requests up now; each tells its client."""
        self.cut_short = True
        for place in self._places:
            if place.deadline is not None and not place.deadline.expired():
                place.deadline.reschedule(0.0)

    async def wait_until_idle(self) -> None:
        await self._idle.wait()
