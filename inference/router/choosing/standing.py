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

_KEPT = 0.9  # so much of what was measured before still counts beside each new measurement,
_KEPT_STEPS = 0.97  # and of what a line is laid through


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


class StepPace:
    """Seconds from one token of an answer to the next, by how many answers a worker writes at once: a step reads all
    weights once and works a little for each answer, so it is a line (as in IBM's WVA, ITL = alpha + beta x batch), by
    least squares through what was measured, the newest counting most. It never falls; where the number of answers
    hardly varied, it is flat."""

    __slots__ = ("_base_s", "_more_s", "_products", "_running", "_seconds", "_squares", "_weight", "mean_s")

    def __init__(self) -> None:
        self._weight = self._running = self._seconds = self._squares = self._products = 0.0
        self._base_s = self._more_s = 0.0
        self.mean_s: float | None = None

    def add(self, seconds: float, tokens: int, running: int) -> None:
        """`tokens` of one answer took `seconds` while `running` answers were written. Nothing, or no time, tells
        nothing."""
        if tokens <= 0 or seconds <= 0:
            return
        running, kept = max(1, running), _KEPT_STEPS
        self._weight = kept * self._weight + tokens
        self._running = kept * self._running + tokens * running
        self._seconds = kept * self._seconds + seconds
        self._squares = kept * self._squares + tokens * running * running
        self._products = kept * self._products + seconds * running
        running_mean = self._running / self._weight
        self.mean_s = self._seconds / self._weight
        variance = self._squares / self._weight - running_mean * running_mean
        covariance = self._products / self._weight - running_mean * self.mean_s
        # As if a difference of one answer had been seen to make none: so a small spread of noise makes no steep line.
        self._more_s = min(max(0.0, covariance / (variance + 1.0)), self.mean_s / running_mean)
        self._base_s = self.mean_s - self._more_s * running_mean

    def at(self, running: float) -> float | None:
        """With so many answers at once; None when nothing was measured."""
        return None if self.mean_s is None else self._base_s + self._more_s * running


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
    writing: StepPace = field(default_factory=StepPace)

    def told(self, load: WorkerLoad, now: float) -> None:
        """The worker said what it has from all routers together. now: of one monotonic clock."""
        self.told_at = now
        self.others_answers = max(0, load.running + load.waiting - self.answers)
        self.others_backlog_tokens = max(0, load.waiting_tokens - self.backlog_tokens)
        if load.kv_block_tokens is not None:
            self.kv_tokens_total = load.kv_blocks_total * load.kv_block_tokens
            self.others_kv_tokens = max(0, load.kv_blocks_used * load.kv_block_tokens - self.kv_tokens)

    @property
    def running(self) -> int:
        """Answers of all routers."""
        return self.answers + self.others_answers

    @property
    def step_with_one_more_s(self) -> float | None:
        """Seconds from token to token, were there one answer more; None when nothing was measured."""
        return self.writing.at(self.answers + self.others_answers + 1)

    def predicted_ttft_s(self, uncached_tokens: int) -> float | None:
        """Seconds until so many more prompt tokens are read; None when the pace was not measured."""
        read_s = self.reading.each_s
        if read_s is None:
            return None
        return read_s * (self.backlog_tokens + self.others_backlog_tokens + uncached_tokens)

    @property
    def in_use(self) -> bool:
        """Whether a live request of this router counts here."""
        return bool(self.answers or self.kv_tokens or self.backlog_tokens)


#: What is presumed of a worker that nothing is known of. Never written to.
UNKNOWN = Standing()
