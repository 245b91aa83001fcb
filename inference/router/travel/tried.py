"""What a request has tried, and what that means for what is left to try."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference.contracts.errors import BUSY_ERRORS, CLIENT_ERRORS, ErrorCode, TandemError
from inference.contracts.routing import WorkerRoute
from inference.router.choosing.knowledge import Pair
from inference.router.choosing.standing import WorkerKey, key_of
from inference.router.errors import ApiError, unavailable, workers_fault
from inference.router.travel.legs import Leg, LegFailed
from inference.router.travel.record import Route
from inference.router.workers.failures import WorkerLost

#: A worker with another model than the table says is no client's fault: the table is behind.
PASSED_ON = CLIENT_ERRORS - {ErrorCode.MODEL_NOT_FOUND}
ELSEWHERE = BUSY_ERRORS | {ErrorCode.MODEL_NOT_FOUND}

#: What a worker tells of a hand-off that failed. Neither worker is to blame alone, so another pair is tried.
_PAIR_ERRORS = frozenset(
    {
        ErrorCode.FINGERPRINT_MISMATCH,
        ErrorCode.CHECKSUM_MISMATCH,
        ErrorCode.TOKEN_COUNT_MISMATCH,
        ErrorCode.TRANSFER_FAILED,
        ErrorCode.TICKET_EXPIRED,
        ErrorCode.TICKET_UNKNOWN,
        ErrorCode.DEADLINE_EXCEEDED,
    }
)

NO_PARTNER = "pair"
_STAGES = {
    "reserve": "the reservation",
    Leg.PREFILL.value: "the prefill stage",
    Leg.ANSWER.value: "the decode stage",
}


class AttemptFailed(Exception):
    """`worker` ended an attempt, on `leg`: "reserve", "prefill", "answer", or "pair" when it has no partner.

    pair: set when the hand-off between two workers failed, so that neither of them alone is to blame.
    """

    def __init__(self, leg: str, worker: WorkerRoute, error: TandemError, pair: Pair | None = None) -> None:
        super().__init__(f"{leg}: {error}")
        self.leg = leg
        self.worker = worker
        self.error = error
        self.pair = pair

    @property
    def busy(self) -> bool:
        return self.error.code in ELSEWHERE

    @property
    def stage(self) -> str:
        return _STAGES.get(self.leg, self.leg)


def blame(failure: LegFailed, route: Route, *, answer_flows: bool) -> AttemptFailed:
    """Whose failure `failure` is. answer_flows: the answering worker had gone on after the first token.

    Before that, what the answering worker tells of a hand-off may be the prefill worker's failure, of which it only
    heard; a worker that says nothing any more is to blame itself.
    """
    leg, error, prefill = failure.leg, failure.error, route.prefill
    if prefill is None or isinstance(error, WorkerLost):
        worker = prefill if leg is Leg.PREFILL and prefill is not None else route.answering
        return AttemptFailed(leg.value, worker, error)
    hearsay = leg is Leg.ANSWER and not answer_flows and error.code not in ELSEWHERE
    both = error.code in _PAIR_ERRORS or hearsay
    pair = (key_of(route.answering), key_of(prefill)) if both else None
    return AttemptFailed(leg.value, prefill if leg is Leg.PREFILL else route.answering, error, pair)


class NoWorker(Exception):
    """No (further) worker or pair is there for the request; `message` says what is missing."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(slots=True)
class Tried:
    """What this request need not try again."""

    workers: set[WorkerKey] = field(default_factory=set)
    busy: set[WorkerKey] = field(default_factory=set)
    pairs: set[Pair] = field(default_factory=set)
    faults: int = 0
    last_fault: AttemptFailed | None = None
    last_busy: AttemptFailed | None = None

    def note(self, failed: AttemptFailed) -> None:
        if failed.pair is not None:
            self.pairs.add(failed.pair)
        else:
            self.workers.add(key_of(failed.worker))
        if failed.busy:
            self.busy.add(key_of(failed.worker))
        if not failed.busy:
            self.faults += 1
            self.last_fault = failed
        elif failed.leg != NO_PARTNER:
            self.last_busy = failed

    @property
    def only_busy(self) -> bool:
        """Whether there are workers that are merely busy, so that there may be room later."""
        return self.last_busy is not None

    def forget_busy(self) -> None:
        """Some time has passed."""
        self.workers -= self.busy
        self.busy, self.last_busy = set(), None

    @property
    def doubtful(self) -> set[WorkerKey]:
        """Members of pairs that failed: used when there are no others."""
        return {worker for pair in self.pairs for worker in pair}

    def prefills_beside(self, answering: WorkerRoute) -> set[WorkerKey]:
        """Prefill workers that are no use to `answering`."""
        return self.workers | {prefill for other, prefill in self.pairs if other == key_of(answering)}

    def verdict(self, nobody: NoWorker, retry_after_s: int) -> ApiError:
        """What to tell the client when nobody is left to ask."""
        if self.last_fault is not None:
            return workers_fault(self.last_fault.stage, self.last_fault.error.code, self.faults)
        if self.last_busy is not None:
            code = self.last_busy.error.code.value
            return unavailable(f"Every worker is busy: {self.last_busy.stage} said {code}.", retry_after_s, code)
        return unavailable(nobody.message, retry_after_s)
