"""Chooses workers for requests with what this router knows at the moment, and learns from how it went."""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Collection

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import HandoffDone, Ticket, WorkerTimings
from inference.contracts.reports import WorkerLoad
from inference.contracts.routing import WorkerRoute
from inference.contracts.states import PrefillPath
from inference.router.choosing.ask import Ask, Barred
from inference.router.choosing.breakers import Breakers
from inference.router.choosing.load import LiveRequests
from inference.router.choosing.pick_decode import pick_decode
from inference.router.choosing.pick_prefill import Handoff, pick_prefill, soonest_ttft_s
from inference.router.choosing.prompt_knowledge import PromptKnowledge
from inference.router.choosing.roster import Roster, what_is_missing
from inference.router.choosing.split import decide_split, local_threshold
from inference.router.choosing.standing import Pace, WorkerKey, key_of
from inference.router.config import Limits
from inference.router.errors import too_late
from inference.router.travel.journey import Journey
from inference.router.travel.tried import NO_PARTNER, AttemptFailed, NoWorker, Pair


class Steering:
    """live: whose standings are read and taught. try_s: how long the outcome of a breaker's trial is waited for."""

    def __init__(self, live: LiveRequests, limits: Limits, try_s: float, rng: random.Random) -> None:
        self._standings = live.standings
        self._rng = rng
        self.prompts = PromptKnowledge(limits.prefix_blocks)
        self.workers: Breakers[WorkerKey] = Breakers(limits.suspect_s, limits.suspect_most_s, try_s)
        self.pairs: Breakers[Pair] = Breakers(limits.suspect_s, limits.suspect_most_s, try_s)
        self._handing: defaultdict[WorkerKey, dict[WorkerKey, Pace]] = defaultdict(dict)

    # -- choosing --------------------------------------------------------------------------------

    def answering(self, roster: Roster, journey: Journey, ask: Ask) -> WorkerRoute:
        """The worker to answer next.

        Raises:
            NoWorker: none is left.
        """
        tried = journey.tried
        again = roster.answering.by_key.get(journey.recompute_on) if journey.recompute_on else None
        if again is not None and again.key not in tried.workers:
            return again.route
        now = time.monotonic()
        barred = Barred(self.workers.avoided(now) | tried.doubtful, tried.workers)
        chosen = pick_decode(roster, self._standings, ask, barred, self._rng)
        if chosen is None:
            raise NoWorker(what_is_missing(roster.deployment))
        self.workers.chosen(key_of(chosen), now)
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
        broken = {prefill for decode, prefill in self.pairs.avoided(now) if decode == mine}
        barred = Barred(
            self.workers.avoided(now) | broken | journey.tried.doubtful, journey.tried.prefills_beside(answering)
        )
        handoff = Handoff(uncached, self._handing[mine])
        chosen = pick_prefill(roster, answering, self._standings, ask, barred, self._rng, handoff)
        if chosen is None:
            raise AttemptFailed(NO_PARTNER, answering, TandemError(ErrorCode.NOT_READY, "no partner is ready"))
        theirs = key_of(chosen)
        lacking = len(ticket.token_ids) - ask.held.get(theirs, 0)
        elsewhere = self._standings[theirs]
        if decide_split(answering, uncached, threshold, here, elsewhere, lacking) is PrefillPath.LOCAL:
            return None
        self.workers.chosen(theirs, now)
        self.pairs.chosen((mine, theirs), now)
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
        if load is not None:
            self._standings[key_of(worker)].told(load, time.monotonic())

    def ticket_came(self, answering: WorkerRoute, ticket: Ticket, journey: Journey) -> None:
        self.told(answering, ticket.load)
        if not journey.goes_on:
            self.prompts.ticket_came(journey.call.deployment, journey.chain, key_of(answering), ticket)

    def handed_off(self, answering: WorkerRoute, prefill: WorkerRoute, done: HandoffDone, journey: Journey) -> None:
        """KV came from `prefill` to `answering`, whole."""
        self.told(prefill, done.load)
        self.pairs.succeeded((key_of(answering), key_of(prefill)))
        self.workers.succeeded(key_of(prefill))
        if journey.ticket is not None and not journey.goes_on:
            tokens = len(journey.ticket.token_ids)
            self.prompts.handed_off(journey.chain, key_of(prefill), done, tokens)
            self.has_read(prefill, tokens - done.cached_tokens, done.timings)
            if done.timings.handoff_s is not None:
                pace = self._handing[key_of(answering)].setdefault(key_of(prefill), Pace())
                pace.add(done.timings.handoff_s, tokens - journey.ticket.cached_tokens)

    def answered(self, answering: WorkerRoute, journey: Journey) -> None:
        """The answering worker wrote its part to the end."""
        self.workers.succeeded(key_of(answering))
        self.prompts.was_read(journey.chain, key_of(answering))

    def has_read(self, worker: WorkerRoute, tokens: int, timings: WorkerTimings) -> None:
        if timings.prefill_s is not None:
            self._standings[key_of(worker)].reading.add(timings.prefill_s, tokens)

    def has_written(self, worker: WorkerRoute, tokens: int, seconds: float) -> None:
        """One of the answers that are written there."""
        standing = self._standings[key_of(worker)]
        standing.writing.add(seconds, tokens, standing.running)

    def failed(self, failure: AttemptFailed) -> None:
        """A fault, not a refusal or a busy answer."""
        now = time.monotonic()
        if failure.pair is not None:
            self.pairs.failed(failure.pair, now)
        else:
            self.workers.failed(key_of(failure.worker), now)

    def forget_all_but(self, workers: Collection[WorkerKey]) -> None:
        """Workers that are not routed to any more."""
        self.prompts.forget_all_but(workers)
        for answering in [each for each in self._handing if each not in workers]:
            del self._handing[answering]
        for paces in self._handing.values():
            for prefill in [each for each in paces if each not in workers]:
                del paces[prefill]
        now = time.monotonic()
        self.workers.forget_old(now)
        self.pairs.forget_old(now)
