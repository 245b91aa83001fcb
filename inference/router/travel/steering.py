"""Chooses workers for requests with what this router knows at the moment, and teaches it how they went.

The rim around `choosing`: here the clock is read, and what can't be chosen becomes an error.
"""

from __future__ import annotations

import math
import random
import time

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import HandoffDone, Ticket, WorkerTimings
from inference.contracts.reports import WorkerLoad
from inference.contracts.routing import WorkerRoute
from inference.contracts.states import PrefillPath
from inference.router.choosing.ask import Ask, Barred
from inference.router.choosing.knowledge import Knowledge
from inference.router.choosing.pick_decode import pick_decode
from inference.router.choosing.pick_prefill import Handoff, pick_prefill
from inference.router.choosing.roster import Roster, what_is_missing
from inference.router.choosing.soonest import soonest_ttft_s
from inference.router.choosing.split import decide_split, local_threshold
from inference.router.choosing.standing import key_of
from inference.router.errors import too_late
from inference.router.travel.journey import Journey
from inference.router.travel.tried import NO_PARTNER, AttemptFailed, NoWorker


class Steering:
    """knowledge: what is read and taught. rng: chooses among equal workers."""

    def __init__(self, knowledge: Knowledge, rng: random.Random) -> None:
        self._knowledge = knowledge
        self._standings = knowledge.standings
        self._rng = rng
        self.prompts = knowledge.prompts

    # -- choosing --------------------------------------------------------------------------------

    def answering(self, roster: Roster, journey: Journey, ask: Ask) -> WorkerRoute:
        """The worker to answer next.

        Raises:
            NoWorker: none is left.
        """
        tried = journey.tried
        again = roster.answering.by_key.get(journey.recompute_on) if journey.recompute_on else None
        if again is not None and again.key not in tried.workers:
            journey.chosen = (again.key,)
            return again.route
        now = time.monotonic()
        barred = Barred(self._knowledge.suspects(now) | tried.doubtful, tried.workers)
        chosen = pick_decode(roster, self._standings, ask, barred, self._rng)
        if chosen is None:
            raise NoWorker(what_is_missing(roster.deployment))
        journey.chosen = (key_of(chosen),)
        self._knowledge.workers.chosen(key_of(chosen), now)
        return chosen

    def prefill(
        self, roster: Roster, answering: WorkerRoute, ticket: Ticket, journey: Journey, ask: Ask
    ) -> WorkerRoute | None:
        """The worker to read the prompt; None: the answering one does.

        Raises:
            AttemptFailed: the answering worker needs a partner and has none (left).
        """
        mine, deployment = key_of(answering), roster.deployment
        here, uncached = self._standings[mine], len(ticket.token_ids) - ticket.cached_tokens
        threshold = local_threshold(
            deployment.local_prefill_tokens,
            automatic=deployment.policy.local_prefill_auto,
            here=here,
            itl_target_s=deployment.itl_target_s,
        )
        if journey.recompute_on == mine or decide_split(answering, uncached, threshold) is PrefillPath.LOCAL:
            return None
        if ticket.fingerprint != answering.fingerprint:
            told = f"the table says fingerprint {answering.fingerprint}, the ticket says {ticket.fingerprint}"
            raise AttemptFailed("reserve", answering, TandemError(ErrorCode.FINGERPRINT_MISMATCH, told))
        now = time.monotonic()
        suspects = self._knowledge.suspects(now, beside=mine) | journey.tried.doubtful
        barred = Barred(suspects, journey.tried.prefills_beside(answering))
        handoff = Handoff(uncached, self._knowledge.handing(mine))
        chosen = pick_prefill(roster, answering, self._standings, ask, barred, self._rng, handoff)
        if chosen is None:
            raise AttemptFailed(NO_PARTNER, answering, TandemError(ErrorCode.NOT_READY, "no partner is ready"))
        theirs = key_of(chosen)
        lacking = len(ticket.token_ids) - ask.held.get(theirs, 0)
        elsewhere = self._standings[theirs]
        if decide_split(answering, uncached, threshold, here, elsewhere, lacking) is PrefillPath.LOCAL:
            return None
        journey.chosen = (mine, theirs)
        self._knowledge.workers.chosen(theirs, now)
        self._knowledge.pairs.chosen((mine, theirs), now)
        return chosen

    def ask(self, roster: Roster, journey: Journey) -> Ask:
        """What the request needs, by what is presumed of its prompt."""
        deployment, call = roster.deployment, journey.call
        tokens = self.prompts.tokens(deployment.name, journey.chain.octets)
        if journey.ticket is not None:
            tokens = len(journey.ticket.token_ids) + len(journey.written.token_ids)
        return Ask(
            prompt_tokens=tokens,
            answer_tokens=call.sampling.n * call.sampling.max_tokens,
            held=self.prompts.held(deployment.name, journey.chain),
            session=journey.chain.session,
            earlier_tokens=self.prompts.tokens(deployment.name, journey.chain.earlier_octets),
            itl_target_s=deployment.itl_target_s,
        )

    def require_in_time(self, roster: Roster, ask: Ask, deadline_s: float | None) -> None:
        """Refuse at once what can't have its first token in `deadline_s` more seconds, as far as is known.

        Raises:
            ApiError: 503, with when it might.
        """
        if deadline_s is None:
            return
        soonest_s = soonest_ttft_s(roster, self._standings, ask)
        if deadline_s <= 0 or (soonest_s is not None and soonest_s > deadline_s):
            wait_s = 0.0 if soonest_s is None else soonest_s - deadline_s
            raise too_late(soonest_s, max(1, math.ceil(wait_s)))

    # -- learning --------------------------------------------------------------------------------

    def told(self, worker: WorkerRoute, load: WorkerLoad | None) -> None:
        """What a worker says it has to do."""
        self._knowledge.told(key_of(worker), load, time.monotonic())

    def ticket_came(self, answering: WorkerRoute, ticket: Ticket, journey: Journey) -> None:
        self.told(answering, ticket.load)
        if not journey.goes_on:
            self.prompts.ticket_came(journey.call.deployment, journey.chain, key_of(answering), ticket)

    def handed_off(self, answering: WorkerRoute, prefill: WorkerRoute, done: HandoffDone, journey: Journey) -> None:
        """KV came from `prefill` to `answering`, whole."""
        self.told(prefill, done.load)
        tokens, seconds = 0, None
        if journey.ticket is not None and not journey.goes_on:
            prompt_tokens = len(journey.ticket.token_ids)
            self.prompts.handed_off(journey.chain, key_of(prefill), done, prompt_tokens)
            self.has_read(prefill, prompt_tokens - done.cached_tokens, done.timings)
            tokens, seconds = prompt_tokens - journey.ticket.cached_tokens, done.timings.handoff_s
        self._knowledge.handed_off((key_of(answering), key_of(prefill)), tokens, seconds)

    def answered(self, answering: WorkerRoute, journey: Journey) -> None:
        """The answering worker wrote its part to the end."""
        self._knowledge.workers.succeeded(key_of(answering))
        self.prompts.was_read(journey.chain, key_of(answering))

    def has_read(self, worker: WorkerRoute, tokens: int, timings: WorkerTimings) -> None:
        if timings.prefill_s is not None:
            self._standings[key_of(worker)].reading.add(timings.prefill_s, tokens)

    def has_written(self, worker: WorkerRoute, tokens: int, seconds: float) -> None:
        """One of the answers that are written there."""
        standing = self._standings[key_of(worker)]
        standing.writing.add(seconds, tokens, standing.running)

    def attempt_ended(self, journey: Journey) -> None:
        """A fault is told after this. What came to neither success nor fault, since a worker was busy or the client
        left, was no trial of an open breaker."""
        for worker in journey.chosen:
            self._knowledge.workers.told_nothing(worker)
        if len(journey.chosen) > 1:
            answering, prefill = journey.chosen
            self._knowledge.pairs.told_nothing((answering, prefill))

    def failed(self, failure: AttemptFailed) -> None:
        """A fault, not a refusal or a busy answer."""
        now = time.monotonic()
        if failure.pair is not None:
            self._knowledge.pairs.failed(failure.pair, now)
        else:
            self._knowledge.workers.failed(key_of(failure.worker), now)
