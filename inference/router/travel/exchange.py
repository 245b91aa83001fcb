"""One dispatched attempt: the prefill worker's and the answering worker's streams, merged into one answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from inference.contracts.errors import ErrorCode
from inference.contracts.generation import Finished, HandoffDone, TokenDelta
from inference.router.config import Deadlines
from inference.router.travel.journey import Written
from inference.router.travel.legs import Leg, LegEvent, LegFailed, Legs
from inference.router.travel.outlet import Lane
from inference.router.travel.record import RequestRecord
from inference.router.workers.failures import WorkerLost

#: So few tokens are little text.
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Answered:
    """leg: which stream closed the answer; PREFILL when the first token already ended it."""

    finished: Finished
    leg: Leg


class Exchange:
    """Reads the legs of one attempt until the answer is complete.

    For a hand-off the first token of each answer comes from the prefill leg and all others from the answer leg. The two
    are separate connections, so a second token may arrive before the first: it is held until then. What was read in one
    piece goes to the client in one piece.

    lane: takes what is for the client, in order. on_first_token: called once, before it is sent. answers: to the one
    prompt. written: what was forwarded, kept for a worker that has to go on with it. answer_flows: the answering worker
    has begun to write. handoff: the end of the prefill leg, once it came.
    """

    __slots__ = (
        "_answer_failure",
        "_begun",
        "_deadlines",
        "_early",
        "_first_leg",
        "_first_tokens_due",
        "_lane",
        "_legs",
        "_on_first_token_came",
        "_prefill_open",
        "_record",
        "_written",
        "answer_flows",
        "handoff",
    )

    def __init__(
        self,
        legs: Legs,
        deadlines: Deadlines,
        record: RequestRecord,
        lane: Lane,
        on_first_token: Callable[[], None],
        *,
        handoff: bool,
        answers: int = 1,
        written: Written | None = None,
    ) -> None:
        self._legs = legs
        self._deadlines = deadlines
        self._record = record
        self._lane = lane
        self._on_first_token_came = on_first_token
        self._written = written or Written()
        self._first_leg = Leg.PREFILL if handoff else Leg.ANSWER
        self._first_tokens_due = answers if handoff else 1
        self._begun = False
        self._early: list[LegEvent] = []
        self._prefill_open = handoff
        self._answer_failure: LegFailed | None = None
        self.answer_flows = False
        self.handoff: HandoffDone | None = None

    async def run(self) -> Answered:
        """Forward the whole answer.

        Raises:
            LegFailed: the answer can't be completed, because of that leg.
        """
        self._legs.expect(self._first_leg, self._deadlines.first_event_s)
        answered = None
        while answered is None:
            try:
                leg, events = await self._legs.next(self._take_at_once)
            except LegFailed as failure:
                self._survive(failure)
                continue
            try:
                answered = self._on_prefill(events) if leg is Leg.PREFILL else self._on_answer(events)
            finally:
                if answered is None or self._prefill_open:  # else the end of the answer follows at once
                    await self._lane.flush()
        if answered.leg is Leg.ANSWER:
            await self._settle()
        return self._with_cached(answered)

    def _with_cached(self, answered: Answered) -> Answered:
        """After a hand-off the prefill worker knows how much of the prompt was cached."""
        if answered.leg is Leg.PREFILL or self.handoff is None:
            return answered
        finished = msgspec.structs.replace(answered.finished, cached_tokens=self.handoff.cached_tokens)
        return Answered(finished, answered.leg)

    def _survive(self, failure: LegFailed) -> None:
        """Go on with one leg where the answer may still be whole; else raise `failure`."""
        if self._first_tokens_due:
            raise failure
        if failure.leg is Leg.PREFILL:
            self._survive_prefill(failure)
        else:
            self._survive_answer(failure)

    def _survive_prefill(self, failure: LegFailed) -> None:
        """KV that decode already writes from was accepted. A worker that was lost between its first token and its word
        on the hand-off may have delivered all of it: decode's next token, if it comes at once, tells."""
        if self._answer_failure is not None:
            raise self._answer_failure
        if not self.answer_flows:
            if not isinstance(failure.error, WorkerLost):
                raise failure
            self._legs.expect(Leg.ANSWER, self._deadlines.orphan_s)
        self._close_prefill()

    def _survive_answer(self, failure: LegFailed) -> None:
        """Where the first token ended the answer there is no hand-off to wait for: decode may say so before the prefill
        worker's closing event is here."""
        if self.answer_flows or not self._prefill_open or self._answer_failure is not None:
            raise failure
        self._answer_failure = failure
        self._legs.excuse(Leg.ANSWER)
        self._legs.expect(Leg.PREFILL, self._deadlines.settle_s)

    def _take_at_once(self, leg: Leg, deltas: Sequence[TokenDelta]) -> bool:
        """Tokens of an answer that flows, to a client that can take them: nothing is to be decided or waited for."""
        if leg is not Leg.ANSWER or not self.answer_flows or len(deltas) > _AT_ONCE or not self._lane.flows():
            return False
        self._send(deltas)
        self._lane.pass_on()
        self._legs.expect(Leg.ANSWER, self._deadlines.idle_s)
        return True

    def _on_prefill(self, events: Sequence[LegEvent]) -> Answered | None:
        answered = None
        for event in events:
            if isinstance(event, HandoffDone):
                self._handed_off(event)
            elif isinstance(event, Finished):
                self._forward([event])
                answered = Answered(event, Leg.PREFILL)
            else:
                answered = self._on_first_token(event) or answered
        return answered

    def _handed_off(self, done: HandoffDone) -> None:
        if self._answer_failure is not None:
            raise self._answer_failure
        self.handoff = done
        self._record.handed_off(done)
        self._close_prefill()

    def _on_first_token(self, delta: TokenDelta) -> Answered | None:
        """Of one of the answers, from the prefill worker. What came before the last of them is next."""
        self._forward([delta])
        self._first_tokens_due -= 1
        self._legs.expect(Leg.PREFILL, self._deadlines.idle_s)
        if self._first_tokens_due:
            return None
        self._legs.expect(Leg.ANSWER, self._deadlines.idle_s)
        early, self._early = self._early, []
        return self._on_answer(early) if early else None

    def _on_answer(self, events: Sequence[LegEvent]) -> Answered | None:
        last = events[-1]
        if isinstance(last, HandoffDone):
            raise LegFailed(Leg.ANSWER, WorkerLost(ErrorCode.ENGINE_FAILED, "a hand-off's end on an answer's stream"))
        if self._first_leg is Leg.PREFILL and self._first_tokens_due:
            self._early += events
            return None
        self.answer_flows = True
        self._first_tokens_due = 0
        self._forward(events)
        if isinstance(last, Finished):
            return Answered(last, Leg.ANSWER)
        self._legs.expect(Leg.ANSWER, self._deadlines.idle_s)
        return None

    def _forward(self, events: Sequence[LegEvent]) -> None:
        if not self._begun:
            self._begun = True
            self._on_first_token_came()
        self._send([each if isinstance(each, TokenDelta) else _text_left(each) for each in events])

    def _send(self, deltas: Sequence[TokenDelta]) -> None:
        self._record.saw_tokens(deltas)
        self._written.add(deltas)
        self._lane.send(deltas)

    async def _settle(self) -> None:
        """The answer is complete; wait a moment for the prefill leg's figures where they are still on their way."""
        self._legs.excuse(Leg.ANSWER)
        self._legs.expect(Leg.PREFILL, self._deadlines.settle_s)
        while self._prefill_open:
            try:
                leg, events = await self._legs.next()
            except LegFailed:
                return
            done = events[-1]
            if leg is Leg.PREFILL and isinstance(done, HandoffDone):
                self._handed_off(done)

    def _close_prefill(self) -> None:
        self._prefill_open = False
        self._legs.excuse(Leg.PREFILL)


def _text_left(event: LegEvent) -> TokenDelta:
    """Text that was held back until the end, as an event of its own."""
    return TokenDelta(token_ids=(), text=event.text if isinstance(event, Finished) else "")
