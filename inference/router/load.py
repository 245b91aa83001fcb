"""What this router has under way on each worker, counted from the set of live requests.

Nothing is incremented and later decremented: a request is in the set while its handler runs and its place says what it
holds where, so no exit path can leave a count behind.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from inference.contracts.routing import WorkerRoute

#: One process: (worker id, incarnation).
WorkerKey = tuple[str, str]


def key_of(worker: WorkerRoute) -> WorkerKey:
    return worker.worker_id, worker.incarnation


@dataclass(slots=True, eq=False)
class Place:
    """Where one live request stands.

    kv_tokens: prompt and longest answer, held on the answering worker. backlog_tokens: uncached prompt tokens that the
    prefilling worker (the answering one for a local prefill) has not yet turned into a first token. deadline: when the
    request is given up.
    """

    deployment: str
    answering: WorkerKey | None = None
    kv_tokens: int = 0
    prefilling: WorkerKey | None = None
    backlog_tokens: int = 0
    deadline: asyncio.Timeout | None = None

    def move_to(self, answering: WorkerKey, kv_tokens: int) -> None:
        """A new attempt, with `kv_tokens` as estimated; whatever was held elsewhere is not any more."""
        self.answering, self.kv_tokens = answering, kv_tokens
        self.prefilling, self.backlog_tokens = None, 0

    def dispatched(self, kv_tokens: int, prefilling: WorkerKey, backlog_tokens: int) -> None:
        """The ticket told the true numbers, and the prompt waits at `prefilling`."""
        self.kv_tokens = kv_tokens
        self.prefilling, self.backlog_tokens = prefilling, backlog_tokens

    def first_token_came(self) -> None:
        self.prefilling, self.backlog_tokens = None, 0


@dataclass(slots=True)
class Load:
    """Sums over the live requests of one worker: answers being written, KV tokens held, prompt tokens waiting."""

    answers: int = 0
    kv_tokens: int = 0
    backlog_tokens: int = 0


class LiveRequests:
    """The set of requests this router is serving now. cut_short: they are being given up, because the router stops."""

    def __init__(self) -> None:
        self._places: set[Place] = set()
        self.cut_short = False
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def track(self, deployment: str) -> Iterator[Place]:
        place = Place(deployment)
        self._places.add(place)
        self._idle.clear()
        try:
            yield place
        finally:
            self._places.discard(place)
            if not self._places:
                self._idle.set()

    def loads(self) -> dict[WorkerKey, Load]:
        """Load of every worker that has any."""
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
        for place in self._places:
            if place.deadline is not None and not place.deadline.expired():
                place.deadline.reschedule(0.0)

    async def wait_until_idle(self) -> None:
        await self._idle.wait()
