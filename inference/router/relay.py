"""The journey of one request: decode first, then prefill, then the stream; elsewhere again until the client has text.

Every attempt stands alone: it reserves, it is dispatched, and on every way out but a complete answer its streams are
aborted and its ticket is given back.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import (
    Finished,
    GenerateRequest,
    PrefillRequest,
    Prompt,
    ReserveRequest,
    Sampling,
    Ticket,
)
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.states import PrefillPath
from inference.contracts.timings import RequestTiming
from inference.process.tasks import Background
from inference.router import pick
from inference.router.config import Deadlines, Limits
from inference.router.errors import clients_fault, unavailable, workers_fault
from inference.router.exchange import Answered, Exchange
from inference.router.legs import Leg, LegFailed, Legs
from inference.router.load import LiveRequests, Place, key_of
from inference.router.outlet import Lane
from inference.router.record import RequestRecord, Route
from inference.router.suspects import Suspects
from inference.router.tried import NO_PARTNER, PASSED_ON, AttemptFailed, NoWorker, Tried, blame
from inference.router.worker_client import WorkerClient


@dataclass(frozen=True, slots=True)
class Call:
    """One prompt of what a client asked, in the workers' words. clip: the client named no limit of its own. echo,
    priority, cache_salt: as in `ReserveRequest`."""

    request_id: str
    deployment: str
    prompt: Prompt
    sampling: Sampling
    clip: bool
    echo: bool = False
    priority: int = 0
    cache_salt: str = ""


@dataclass(frozen=True, slots=True)
class Journey:
    """One request under way. place: its share of the workers' load."""

    call: Call
    lane: Lane
    record: RequestRecord
    place: Place
    tried: Tried


class Relay:
    """Serves requests with the workers of the newest routing table.

    find: the deployment of a name as it is now, None when it is gone.
    """

    def __init__(
        self,
        client: WorkerClient,
        find: Callable[[str], DeploymentRoute | None],
        live: LiveRequests,
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
        self._suspects = Suspects(limits.suspect_s)
        self._rng = rng or random.Random()  # noqa: S311 - breaks ties between equal workers

    async def answer(self, call: Call, lane: Lane, record: RequestRecord) -> tuple[Finished, RequestTiming]:
        """Answer `call`, passing what comes to `lane`.

        Raises:
            ApiError: refused, not servable now, or failed; text may have been sent before that.
        """
        tried = Tried()
        with self._live.track(call.deployment) as place:
            journey = Journey(call, lane, record, place, tried)
            try:
                async with asyncio.timeout(self._deadlines.total_s) as place.deadline:
                    answered = await self._answer_somewhere(journey)
            except NoWorker as nobody:
                raise tried.verdict(nobody, self._limits.retry_after_s) from nobody
            except TimeoutError:
                if self._live.cut_short:
                    raise unavailable("The router is stopping.", self._limits.retry_after_s) from None
                raise workers_fault("the request", ErrorCode.DEADLINE_EXCEEDED, tried.faults) from None
            return answered.finished, record.complete(answered.finished, answered.leg is Leg.ANSWER)

    async def _answer_somewhere(self, journey: Journey) -> Answered:
        while True:
            try:
                return await self._attempt(journey)
            except AttemptFailed as failed:
                self._judge(failed, journey)

    def _judge(self, failed: AttemptFailed, journey: Journey) -> None:
        """Decide whether to try again: returns to do so, raises `ApiError` not to."""
        if failed.error.code in PASSED_ON:
            raise clients_fault(failed.error)
        journey.tried.note(failed)
        if not failed.busy:
            journey.record.fault(failed.leg, failed.worker, failed.error)
            if failed.pair is None:
                self._suspects.add(key_of(failed.worker), time.monotonic())
        if journey.lane.begun or journey.tried.faults >= self._limits.max_attempts:
            raise workers_fault(failed.stage, failed.error.code, journey.tried.faults)

    async def _attempt(self, journey: Journey) -> Answered:
        deployment = self._find(journey.call.deployment)
        if deployment is None:
            raise NoWorker(f"The model {journey.call.deployment!r} is no longer served.")
        answering = self._choose_answering(deployment, journey.tried)
        journey.lane.restart()
        journey.record.begin_attempt()
        ticket = await self._reserve(answering, deployment, journey)
        journey.record.reserved()
        answered = None
        legs = Legs(self._background)
        try:
            route = Route(answering, self._choose_prefill(deployment, answering, ticket, journey.tried))
            answered = await self._exchange(legs, route, ticket, journey)
            return answered
        finally:
            legs.close()
            if answered is None or answered.leg is Leg.PREFILL:
                self._client.release_soon(answering, ticket)

    def _choose_answering(self, deployment: DeploymentRoute, tried: Tried) -> WorkerRoute:
        answering = pick.choose_answering(
            deployment.workers,
            self._live.loads(),
            suspects=self._suspects.at(time.monotonic()) | tried.doubtful,
            excluded=tried.workers,
            rng=self._rng,
        )
        if answering is None:
            raise NoWorker(pick.what_is_missing(deployment))
        return answering

    async def _reserve(self, answering: WorkerRoute, deployment: DeploymentRoute, journey: Journey) -> Ticket:
        call = journey.call
        estimate = pick.estimate_tokens(call.prompt) + call.sampling.n * call.sampling.max_tokens
        journey.place.move_to(key_of(answering), estimate)
        request = ReserveRequest(
            request_id=call.request_id,
            model_name=deployment.model_name,
            prompt=call.prompt,
            sampling=call.sampling,
            clip_max_tokens=call.clip,
            echo=call.echo,
            priority=call.priority,
            cache_salt=call.cache_salt,
        )
        try:
            ticket = await self._client.reserve(answering, request)
        except TandemError as error:
            raise AttemptFailed("reserve", answering, error) from error
        if ticket.sampling_version < max(
            call.sampling.version, call.prompt.version
        ):  # it would have ignored what it does not know
            self._client.release_soon(answering, ticket)
            older = TandemError(ErrorCode.NOT_READY, "runs a release that can't choose tokens as asked")
            raise AttemptFailed("reserve", answering, older)
        if ticket.prompt_text is not None:
            journey.lane.echo(ticket.prompt_text)
        if ticket.tool_format is not None:
            journey.lane.read_calls(ticket.tool_format)
        return ticket

    def _choose_prefill(
        self, deployment: DeploymentRoute, answering: WorkerRoute, ticket: Ticket, tried: Tried
    ) -> WorkerRoute | None:
        """The prefill worker; None for a local prefill. A long prompt without a partner looks for another pair."""
        uncached = len(ticket.token_ids) - ticket.cached_tokens
        if pick.choose_path(answering, uncached, deployment.local_prefill_tokens) is PrefillPath.LOCAL:
            return None
        if ticket.fingerprint != answering.fingerprint:
            told = f"the table says fingerprint {answering.fingerprint}, the ticket says {ticket.fingerprint}"
            raise AttemptFailed("reserve", answering, TandemError(ErrorCode.FINGERPRINT_MISMATCH, told))
        prefill = pick.choose_prefill(
            answering,
            deployment.workers,
            self._live.loads(),
            suspects=self._suspects.at(time.monotonic()) | tried.doubtful,
            excluded=tried.prefills_beside(answering),
            rng=self._rng,
        )
        if prefill is None:
            raise AttemptFailed(NO_PARTNER, answering, TandemError(ErrorCode.NOT_READY, "no partner is ready"))
        return prefill

    async def _exchange(self, legs: Legs, route: Route, ticket: Ticket, journey: Journey) -> Answered:
        """Call both workers at once (the open generate call keeps the ticket alive while the prompt is read) and read
        their streams to the end."""
        journey.record.dispatched(route)
        place = journey.place
        prompt_tokens = len(ticket.token_ids)
        place.dispatched(
            prompt_tokens + journey.call.sampling.n * ticket.max_tokens,
            key_of(route.prefill or route.answering),
            prompt_tokens - ticket.cached_tokens,
        )
        generate = GenerateRequest(request_id=journey.call.request_id, ticket_id=ticket.ticket_id, path=route.path)
        legs.open(Leg.ANSWER, self._client.generate(route.answering, generate))
        if route.prefill is not None:
            legs.open(Leg.PREFILL, self._client.prefill(route.prefill, _prefill_request(route, ticket, journey.call)))
        exchange = Exchange(
            legs,
            self._deadlines,
            journey.record,
            journey.lane.send,
            place.first_token_came,
            handoff=route.path is PrefillPath.HANDOFF,
            answers=journey.call.sampling.n,
        )
        try:
            return await exchange.run()
        except LegFailed as failure:
            raise blame(failure, route, answer_flows=exchange.answer_flows) from failure


def _prefill_request(route: Route, ticket: Ticket, call: Call) -> PrefillRequest:
    target = route.answering.transfer
    if target is None:
        raise ValueError(f"{route.answering.worker_id} takes no hand-offs and must not be paired")
    return PrefillRequest(
        request_id=call.request_id,
        ticket_id=ticket.ticket_id,
        token_ids=ticket.token_ids,
        sampling=msgspec.structs.replace(call.sampling, max_tokens=ticket.max_tokens),
        fingerprint=ticket.fingerprint,
        target=target,
        priority=call.priority,
        cache_salt=call.cache_salt,
    )
