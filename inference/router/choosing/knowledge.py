"""What a router knows of its workers and of prompts: taught by what happens, read by the choices, and let go of when
what it is about is no more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from inference.contracts.reports import WorkerLoad
from inference.router.choosing.breakers import Breakers
from inference.router.choosing.place import AllStandings
from inference.router.choosing.prompt_knowledge import PromptKnowledge
from inference.router.choosing.standing import Pace, Standing, WorkerKey

#: (answering, prefill) workers.
Pair = tuple[WorkerKey, WorkerKey]


class Knowledge:
    """standings: of the workers. prompts: what is presumed of them. workers, pairs: the breakers of workers, and of
    hand-offs between two.

    most_blocks: as in `PromptKnowledge`. cool_s, most_s, try_s: as in `Breakers`. `now` is of one monotonic clock, in
    seconds.
    """

    def __init__(self, *, most_blocks: int, cool_s: float, most_s: float, try_s: float) -> None:
        self.standings: AllStandings = defaultdict(Standing)
        self.prompts = PromptKnowledge(most_blocks)
        self.workers: Breakers[WorkerKey] = Breakers(cool_s, most_s, try_s)
        self.pairs: Breakers[Pair] = Breakers(cool_s, most_s, try_s)
        self._handing: dict[WorkerKey, dict[WorkerKey, Pace]] = {}

    def told(self, worker: WorkerKey, load: WorkerLoad | None, now: float) -> None:
        """What a worker says it has to do."""
        if load is not None:
            self.standings[worker].told(load, now)

    def suspects(self, now: float, *, beside: WorkerKey | None = None) -> frozenset[WorkerKey]:
        """Workers whose breakers are open, and those whose hand-off to `beside` has an open one."""
        broken = (prefill for answering, prefill in self.pairs.avoided(now) if answering == beside)
        return self.workers.avoided(now).union(broken)

    def handing(self, answering: WorkerKey) -> Mapping[WorkerKey, Pace]:
        """Of prefill workers: what their hand-off to `answering` takes beyond reading, in seconds for a token."""
        return self._handing.get(answering, {})

    def handed_off(self, pair: Pair, tokens: int, seconds: float | None) -> None:
        """KV of so many tokens came, whole, so long after the first token; None: it was not measured."""
        answering, prefill = pair
        self.pairs.succeeded(pair)
        self.workers.succeeded(prefill)
        if seconds is not None:
            self._handing.setdefault(answering, {}).setdefault(prefill, Pace()).add(seconds, tokens)

    def forget_all_but(self, workers: Collection[WorkerKey], deployments: Collection[str], now: float) -> None:
        """Let go of what is known of all others, but for workers that a live request is still at, and of breakers that
        nobody tried again for long."""
        for worker in [key for key, each in self.standings.items() if key not in workers and not each.in_use]:
            del self.standings[worker]
        self.prompts.forget_all_but(workers, deployments)
        self._handing = {
            answering: {prefill: pace for prefill, pace in paces.items() if prefill in workers}
            for answering, paces in self._handing.items()
            if answering in workers
        }
        self.workers.forget_all_but(lambda worker: worker in workers, now)
        self.pairs.forget_all_but(lambda pair: pair[0] in workers and pair[1] in workers, now)
