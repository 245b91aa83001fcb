"""One dispatched attempt: the prefill worker's and the answering worker's streams, merged into one answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from inference.contracts.errors import ErrorCode
from inference.contracts.generation import Finished, HandoffDone, TokenDelta
from inference.router.config import Deadlines
from inference.router.travel.journey import Written
from inference.router.travel.legs import Leg, LegEvent, LegFailed, Legs
from inference.router.travel.record import RequestRecord
from inference.router.workers.client import WorkerLost


@dataclass(frozen=True, slots=True)
class Answered:
    """leg: which stream closed the answer; PREFILL when the first token already ended it."""

    finished: Finished
    leg: Leg


class Exchange:
    """Reads the legs of one attempt until the answer is complete.

    For a hand-off the first token of each answer comes from the prefill leg and all others from the answer leg. The two
    are separate connections, so a second token may arrive before the first: it is held until then.

    send: takes what is for the client, in order. on_first_token: called once, before it is sent. answers: to the one
    prompt. written: what was forwarded, kept for a worker that has to go on with it. answer_flows: the answering worker
    has begun to write. handoff: the end of the prefill leg, once it came.
    """

    def __init__(
        self,
        legs: Legs,
        deadlines: Deadlines,
        record: RequestRecord,
        send: Callable[[TokenDelta], Awaitable[None]],
        on_first_token: Callable[[], None],
        *,
        handoff: bool,
        answers: int = 1,
        written: Written | None = None,
    ) -> None:
        self._legs = legs
        self._deadlines = deadlines
        self._record = record
        self._send = send
        self._on_first_token = on_first_token
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
                leg, event = await self._legs.next()
            except LegFailed as failure:
                self._survive(failure)
                continue
            answered = await (self._on_prefill(event) if leg is Leg.PREFILL else self._on_answer(event))
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

    async def _on_prefill(self, event: LegEvent) -> Answered | None:
        if isinstance(event, HandoffDone):
            if self._answer_failure is not None:
                raise self._answer_failure
            self.handoff = event
            self._record.handed_off(event)
            self._close_prefill()
            return None
        await self._forward(event)
        if isinstance(event, Finished):
            return Answered(event, Leg.PREFILL)
        self._first_tokens_due -= 1
        self._legs.expect(Leg.PREFILL, self._deadlines.idle_s)
        if self._first_tokens_due:
            return None
        self._legs.expect(Leg.ANSWER, self._deadlines.idle_s)
        answered = None
        early, self._early = self._early, []
        for held in early:
            answered = await self._on_answer(held)
        return answered

    async def _on_answer(self, event: LegEvent) -> Answered | None:
        if isinstance(event, HandoffDone):
            raise LegFailed(Leg.ANSWER, WorkerLost(ErrorCode.ENGINE_FAILED, "a hand-off's end on an answer's stream"))
        if self._first_leg is Leg.PREFILL and self._first_tokens_due:
            self._early.append(event)
            return None
        self.answer_flows = True
        self._first_tokens_due = 0
        await self._forward(event)
        if isinstance(event, Finished):
            return Answered(event, Leg.ANSWER)
        self._legs.expect(Leg.ANSWER, self._deadlines.idle_s)
        return None

    async def _forward(self, event: TokenDelta | Finished) -> None:
        if not self._begun:
            self._begun = True
            self._on_first_token()
        delta = event if isinstance(event, TokenDelta) else TokenDelta(token_ids=(), text=event.text)
        self._record.saw_tokens(delta)
        self._written.add(delta)
        if delta.text or delta.logprobs or delta.finish is not None:
            await self._send(delta)

    async def _settle(self) -> None:
        """The answer is complete; wait a moment for the prefill leg's figures where they are still on their way."""
        self._legs.excuse(Leg.ANSWER)
        self._legs.expect(Leg.PREFILL, self._deadlines.settle_s)
        while self._prefill_open:
            try:
                leg, event = await self._legs.next()
            except LegFailed:
                return
            if leg is Leg.PREFILL and isinstance(event, HandoffDone):
                await self._on_prefill(event)

    def _close_prefill(self) -> None:
        self._prefill_open = False
        self._legs.excuse(Leg.PREFILL)
