"""What is known of a worker at one moment: what this router has there, what others have there, and how fast it is.

Every request changes only the standing of the workers that it moves between, so a choice among many workers reads
figures that are there already instead of counting all live requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from inference.contracts.reports import WorkerLoad
from inference.contracts.routing import WorkerRoute

#: One process: (worker id, incarnation).
WorkerKey = tuple[str, str]

_KEPT = 0.9  # so much of what was measured before still counts beside each new measurement


def key_of(worker: WorkerRoute) -> WorkerKey:
    return worker.worker_id, worker.incarnation


class Pace:
    """Seconds for each of many things, from measurements of some at a time. The newest count most, and each counts for
    as many things as it was about. `each_s` is None until something was measured."""

    __slots__ = ("_seconds", "_things", "each_s")

    def __init__(self) -> None:
        self._seconds = self._things = 0.0
        self.each_s: float | None = None

    def add(self, seconds: float, things: int) -> None:
        """`things` took `seconds`. Nothing, or no time, tells nothing."""
        if things > 0 and seconds > 0:
            self._seconds = _KEPT * self._seconds + seconds
            self._things = _KEPT * self._things + things
            self.each_s = self._seconds / self._things


@dataclass(slots=True, eq=False)
class Standing:
    """One worker.

    answers: being written. kv_tokens: room that they were promised. backlog_tokens: prompt tokens sent there that are
    not read yet. These are of this router's live requests; others_...: the same of everybody else's, from the worker's
    own word. kv_tokens_total: all its room; None until it told. reading: seconds for a prompt token. writing: seconds
    from one token of an answer to the next.
    """

    answers: int = 0
    kv_tokens: int = 0
    backlog_tokens: int = 0
    others_answers: int = 0
    others_kv_tokens: int = 0
    others_backlog_tokens: int = 0
    kv_tokens_total: int | None = None
    told_at: float | None = None
    reading: Pace = field(default_factory=Pace)
    writing: Pace = field(default_factory=Pace)

    def told(self, load: WorkerLoad, now: float) -> None:
        """The worker said what it has from all routers together. now: of one monotonic clock."""
        self.told_at = now
        self.others_answers = max(0, load.running + load.waiting - self.answers)
        self.others_backlog_tokens = max(0, load.waiting_tokens - self.backlog_tokens)
        if load.kv_block_tokens is not None:
            self.kv_tokens_total = load.kv_blocks_total * load.kv_block_tokens
            self.others_kv_tokens = max(0, load.kv_blocks_used * load.kv_block_tokens - self.kv_tokens)

    @property
    def in_use(self) -> bool:
        """Whether a live request of this router counts here."""
        return bool(self.answers or self.kv_tokens or self.backlog_tokens)


#: What is presumed of a worker that nothing is known of. Never written to.
UNKNOWN = Standing()
