"""What one live request holds where, entered in the standings of the workers it is at.

Entered as it moves, and taken out again by `leave`, so that the standings say at any time what a count of all live
requests would.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from inference.router.choosing.standing import Standing, WorkerKey

#: Of every worker that was looked at; made when it is looked at first.
AllStandings = defaultdict[WorkerKey, Standing]


@dataclass(slots=True, eq=False)
class Place:
    """Where one live request stands.

    kv_tokens: prompt and longest answer, held on the answering worker. backlog_tokens: uncached prompt tokens that the
    prefilling worker (the answering one for a local prefill) has not yet turned into a first token.
    """

    deployment: str
    standings: AllStandings
    answering: WorkerKey | None = None
    kv_tokens: int = 0
    prefilling: WorkerKey | None = None
    backlog_tokens: int = 0

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
