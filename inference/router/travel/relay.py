"""The journey of one request: decode first, then prefill, then the stream; elsewhere again where that fails.

Every attempt stands alone: it reserves, it is dispatched, and on every way out but a complete answer its streams are
aborted and its ticket is given back. An attempt after the first token goes on with the answer where that is exact, so
that the client sees nothing of it; else the client is told.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import msgspec

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Finished, GenerateRequest, PrefillRequest, Ticket
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.states import HandoffFailure, PrefillPath
from inference.contracts.timings import RequestTiming
from inference.process.tasks import Background
from inference.router.admission.fair_queue import BUSY, WaitingRoom
from inference.router.admission.rooms import Rooms
from inference.router.choosing.ask import Ask
from inference.router.choosing.knowledge import Knowledge
from inference.router.choosing.roster import Roster
from inference.router.choosing.standing import key_of
from inference.router.config import Deadlines, Limits
from inference.router.errors import ApiError, clients_fault, too_late, unavailable, workers_fault
from inference.router.travel.deadlines import deadlines_of
from inference.router.travel.exchange import Answered, Exchange
from inference.router.travel.journey import Call, Journey
from inference.router.travel.legs import Leg, LegFailed, Legs
from inference.router.travel.live import LiveRequests
from inference.router.travel.outlet import Lane
from inference.router.travel.record import RequestRecord, Route
from inference.router.travel.steering import Steering
from inference.router.travel.tried import PASSED_ON, AttemptFailed, NoWorker, blame
from inference.router.workers.client import WorkerClient

#: So many busy answers in a row, each from the worker with the most room left, say that the others are busy, too.
_MOST_BUSY = 8


class Relay:
    """Serves requests with the workers of the newest routing table.

    find: the deployment of a name as it is now, None when it is gone. knowledge: what choices go by. rooms: where
    requests wait.
    """

    def __init__(
        self,
        client: WorkerClient,
        find: Callable[[str], Roster | None],
        live: LiveRequests,
        knowledge: Knowledge,
        rooms: Rooms,
        background: Background,
        deadlines: Deadlines,
        limits: Limits,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._find = find
        self._live = live
        self._background = background
        self._deadlines = deadlines
        self._limits = limits
        self._rooms = rooms
        rng = rng or random.Random()  # noqa: S311 - chooses among equal workers
        self.steering = Steering(knowledge, rng)

    async def answer(self, call: Call, lane: Lane, record: RequestRecord) -> tuple[Finished, RequestTiming]:
        """Answer `call`, passing what comes to `lane`.

        Raises:
            ApiError: refused, not servable now, or failed; text may have been sent before that.
        """
        chain = self.steering.prompts.chain(call.prompt, call.cache_salt)
        room = self._rooms.of(call.deployment)
        roster = self._find(call.deployment)
        deadlines = deadlines_of(roster.deployment.policy, self._deadlines) if roster is not None else self._deadlines
        with self._live.track(call.deployment) as place:
            journey = Journey(call, chain, lane, record, place)
            try:
                async with self._live.within(place, deadlines.total_s):
                    answered = await self._answer_somewhere(journey, room)
            except NoWorker as nobody:
                raise journey.tried.verdict(nobody, room.advice_s) from nobody
            except TimeoutError:
                if self._live.cut_short:
                    raise unavailable("The router is stopping.", self._limits.retry_after_s) from None
                raise workers_fault("the request", ErrorCode.DEADLINE_EXCEEDED, journey.tried.faults) from None
            finally:
                record.used(*journey.tokens_used)
                place.leave()
                if journey.ticket is not None:
                    room.freed()
                else:
                    room.has_room()  # it held nothing; a call that it may have had is for the next
            return answered.finished, record.complete(answered.finished, answered.leg is Leg.ANSWER)

    async def _answer_somewhere(self, journey: Journey, room: WaitingRoom) -> Answered:
        if len(room):  # nobody overtakes those that wait
            await self._take_turn(journey, room)
        while True:
            try:
                return await self._attempt(journey, room)
            except AttemptFailed as failed:
                finished = journey.already_whole()
                self._judge(failed, journey, whole=finished is not None)
                if finished is not None:
                    return Answered(finished, Leg.PREFILL)
            except NoWorker:
                if not journey.tried.only_busy:
                    raise
                await self._wait(journey, room)

    async def _wait(self, journey: Journey, room: WaitingRoom) -> None:
        """Every worker is busy: wait for the next turn."""
        journey.place.leave()
        try:
            await self._take_turn(journey, room)
        except ApiError as refused:
            busy = journey.tried.verdict(NoWorker(refused.message), room.advice_s)
            raise (busy if refused.code == BUSY else refused) from refused
        journey.tried.forget_busy()

    async def _take_turn(self, journey: Journey, room: WaitingRoom) -> None:
        """Wait for it, but not beyond the time at which the client wants its first token."""
        began = time.perf_counter()
        left_s = None if journey.written.token_ids else journey.time_left_s()
        try:
            async with asyncio.timeout(left_s) as patience:
                await room.wait(journey.claim, journey.patience)
        except TimeoutError:
            if not patience.expired():
                raise
            raise too_late(None, room.advice_s) from None
        finally:
            journey.record.waited(began)

    def _judge(self, failed: AttemptFailed, journey: Journey, *, whole: bool) -> None:
        """Decide whether to try again: returns to do so, raises `ApiError` not to. whole: nothing is missing."""
        if failed.error.code in PASSED_ON and not journey.goes_on:
            raise clients_fault(failed.error)
        tried = journey.tried
        tried.note(failed)
        if not failed.busy:
            journey.record.fault(failed.leg, failed.worker, failed.error)
            self.steering.failed(failed)
        if whole:
            return
        gives_up = tried.faults >= self._limits.max_attempts or self._hand_off_is_final(failed, journey)
        if gives_up or (journey.lane.begun and not journey.can_go_on):
            raise workers_fault(failed.stage, failed.error.code, tried.faults)

    def _hand_off_is_final(self, failed: AttemptFailed, journey: Journey) -> bool:
        """Whether a hand-off that failed ends the request; where its answering worker is to read the prompt itself,
        that is noted."""
        if failed.pair is None:
            return False
        roster = self._find(journey.call.deployment)
        policy = HandoffFailure.RETRY_PREFILL if roster is None else roster.deployment.policy.handoff_failure
        if policy is HandoffFailure.RECOMPUTE_ON_DECODE:
            journey.recompute_on = failed.pair[0]
        return policy is HandoffFailure.FAIL

    async def _attempt(self, journey: Journey, room: WaitingRoom) -> Answered:
        roster = self._find(journey.call.deployment)
        if roster is None:
            raise NoWorker(f"The model {journey.call.deployment!r} is no longer served.")
        if len(journey.tried.busy) >= _MOST_BUSY:
            raise NoWorker(f"Many workers of {journey.call.deployment!r} are busy.")
        ask = self.steering.ask(roster, journey)
        if not journey.can_go_on:
            self.steering.require_in_time(roster, ask, journey.time_left_s())
        answering = self.steering.answering(roster, journey, ask)
        journey.begin_attempt()
        try:
            return await self._attempt_at(answering, roster, journey, room, ask)
        finally:
            self.steering.attempt_ended(journey)

    async def _attempt_at(
        self, answering: WorkerRoute, roster: Roster, journey: Journey, room: WaitingRoom, ask: Ask
    ) -> Answered:
        ticket = await self._reserve(answering, roster.deployment, journey)
        room.has_room()  # there was room for this one, so perhaps for one more
        answered = None
        legs = Legs()
        try:
            route = Route(answering, self.steering.prefill(roster, answering, ticket, journey, ask))
            answered = await self._exchange(legs, route, ticket, journey, roster.deployment)
            return answered
        finally:
            legs.close()
            if answered is None or answered.leg is Leg.PREFILL:
                self._client.release_soon(answering, ticket)

    async def _reserve(self, answering: WorkerRoute, deployment: DeploymentRoute, journey: Journey) -> Ticket:
        request = journey.reservation(deployment)
        ask_tokens = self.steering.prompts.tokens(deployment.name, journey.chain.octets)
        estimate = ask_tokens + journey.call.sampling.n * journey.call.sampling.max_tokens
        journey.place.move_to(key_of(answering), estimate)
        try:
            client = self._client.within(deadlines_of(deployment.policy, self._deadlines))
            ticket = await client.reserve(answering, request)
        except TandemError as error:
            raise AttemptFailed("reserve", answering, error) from error
        if ticket.sampling_version < max(request.sampling.version, request.prompt.version):
            self._client.release_soon(answering, ticket)  # it would have ignored what it does not know
            older = TandemError(ErrorCode.NOT_READY, "runs a release that can't choose tokens as asked")
            raise AttemptFailed("reserve", answering, older)
        self.steering.ticket_came(answering, ticket, journey)
        if not journey.goes_on:
            journey.begun(ticket)
        return ticket

    async def _exchange(
        self, legs: Legs, route: Route, ticket: Ticket, journey: Journey, deployment: DeploymentRoute
    ) -> Answered:
        """Call both workers at once (the open generate call keeps the ticket alive while the prompt is read) and read
        their streams to the end."""
        journey.record.dispatched(route)
        place, call = journey.place, journey.call
        prompt_tokens, answered = len(ticket.token_ids), journey.answered
        place.dispatched(
            prompt_tokens - answered + call.sampling.n * ticket.max_tokens,
            key_of(route.prefill or route.answering),
            prompt_tokens - ticket.cached_tokens,
        )
        generate = GenerateRequest(request_id=call.request_id, ticket_id=ticket.ticket_id, path=route.path)
        deadlines = deadlines_of(deployment.policy, self._deadlines)
        client = self._client.within(deadlines)
        legs.open(Leg.ANSWER, client.generate(route.answering, generate))
        if route.prefill is not None:
            legs.open(Leg.PREFILL, client.prefill(route.prefill, _prefill_request(route, ticket, call, answered)))
        exchange = Exchange(
            legs,
            deadlines,
            journey.record,
            journey.lane,
            place.first_token_came,
            handoff=route.path is PrefillPath.HANDOFF,
            answers=call.sampling.n,
            written=journey.written,
        )
        try:
            ended = await exchange.run()
        except LegFailed as failure:
            raise blame(failure, route, answer_flows=exchange.answer_flows) from failure
        finally:
            if exchange.handoff is not None and route.prefill is not None:
                self.steering.handed_off(route.answering, route.prefill, exchange.handoff, journey)
        self._learn(ended, route, journey)
        return Answered(journey.whole(ended.finished), ended.leg)

    def _learn(self, ended: Answered, route: Route, journey: Journey) -> None:
        """What a complete exchange tells of its workers."""
        finished = ended.finished
        if ended.leg is Leg.PREFILL and route.prefill is not None:
            self.steering.told(route.prefill, finished.load)
            return
        watch = journey.record.watch
        if journey.call.sampling.n == 1 and not journey.goes_on and watch.tpot_s is not None:
            self.steering.has_written(route.answering, watch.tokens - 1, watch.tpot_s * (watch.tokens - 1))
        journey.place.leave()  # what the worker says it has now is without this answer
        self.steering.told(route.answering, finished.load)
        self.steering.answered(route.answering, journey)
        if route.prefill is None:
            self.steering.has_read(route.answering, finished.prompt_tokens - finished.cached_tokens, finished.timings)


def _prefill_request(route: Route, ticket: Ticket, call: Call, answered: int) -> PrefillRequest:
    target = route.answering.transfer
    if target is None:
        raise ValueError(f"{route.answering.worker_id} takes no hand-offs and must not be paired")
    return PrefillRequest(
        request_id=call.request_id,
        ticket_id=ticket.ticket_id,
        token_ids=ticket.token_ids,
        sampling=msgspec.structs.replace(call.sampling, max_tokens=ticket.max_tokens, answered=answered),
        fingerprint=ticket.fingerprint,
        target=target,
        priority=call.priority,
        cache_salt=call.cache_salt,
    )
