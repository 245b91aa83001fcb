"""The routes of a router: OpenAI's serving API, health, metrics."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import structlog
from aiohttp import web

from inference.contracts import auth, names
from inference.contracts.generation import Finished
from inference.contracts.routing import DeploymentRoute
from inference.contracts.timings import RequestTiming
from inference.router.admission.classes import RANKS, worker_priority
from inference.router.config import RouterConfig
from inference.router.errors import ApiError, internal_error
from inference.router.openai import openapi, request
from inference.router.openai.chat_answer import ChatShape
from inference.router.openai.completion_answer import CompletionShape
from inference.router.openai.feasible import require_feasible
from inference.router.openai.request import Asked
from inference.router.openai.sampling import SEED_BITS
from inference.router.openai.schemas import Schemas
from inference.router.table import TableKeeper
from inference.router.telling.metrics import Metrics
from inference.router.telling.shared_metrics import SharedMetrics
from inference.router.telling.windows import Telemetry
from inference.router.travel.journey import Call
from inference.router.travel.outlet import Lane, Outlet, StreamOutlet, WholeOutlet
from inference.router.travel.record import RequestRecord
from inference.router.travel.relay import Relay
from inference.router.turns import Turns
from inference.router.web.door import Door
from inference.router.web.edge import request_id_of, ttft_deadline_of
from inference.router.web.sse import ClientGone, EventWriter

_GIVEN_UP = "given up: another prompt of the same request failed"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Endpoint:
    read: Callable[[bytes], Asked]
    shape: type[ChatShape] | type[CompletionShape]


@dataclass(frozen=True, slots=True)
class _Part:
    """One prompt of a request: what is asked of workers, where its answers go, its record."""

    call: Call
    lane: Lane
    record: RequestRecord


@dataclass(frozen=True, slots=True)
class _Sender:
    """Whose request it is, the rank of its key's class, and how long the first token may take."""

    key_id: str
    rank: int
    ttft_deadline_s: float | None


_CHAT = _Endpoint(request.read_chat, ChatShape)
_COMPLETION = _Endpoint(request.read_completion, CompletionShape)


class Endpoints:
    """Handlers and what they share."""

    def __init__(
        self,
        config: RouterConfig,
        door: Door,
        tables: TableKeeper,
        relay: Relay,
        telemetry: Telemetry,
        metrics: Metrics,
        shared_metrics: SharedMetrics,
        turns: Turns,
        schemas: Schemas,
    ) -> None:
        self._config = config
        self._door = door
        self._tables = tables
        self._relay = relay
        self._telemetry = telemetry
        self._metrics = metrics
        self._shared_metrics = shared_metrics
        self._turns = turns
        self._schemas = schemas

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self.chat),
            web.post("/v1/completions", self.completions),
            web.get("/openapi.json", self.openapi),
            *(web.get(path, self.health_live) for path in (names.HEALTH_LIVE, "/health")),
            *(web.get(path, self.health_ready) for path in (names.HEALTH_READY, "/ready")),
            web.get(names.METRICS, self.metrics),
        ]

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, _CHAT)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, _COMPLETION)

    async def openapi(self, request: web.Request) -> web.Response:
        """What is served here, for tools that read such descriptions; no key is needed."""
        return web.Response(body=openapi.document(), content_type="application/json")

    async def health_live(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def health_ready(self, request: web.Request) -> web.Response:
        """Ready: there are tables to serve from, and the router is not stopping."""
        missing = [
            text
            for text, holds in (
                ("no routing table yet", self._tables.routing is None),
                ("no key table yet", self._tables.keyring is None),
                ("stopping", self._door.stopping),
            )
            if holds
        ]
        status = "; ".join(missing) or "ok"
        return web.json_response({"status": status}, status=503 if missing else 200)

    async def metrics(self, request: web.Request) -> web.Response:
        if not auth.is_bearer(request.headers.get("Authorization"), self._config.cluster_secret, auth.PURPOSE_METRICS):
            raise ApiError(401, "Metrics need the cluster's metrics token.", code="invalid_token")
        exposed = await self._shared_metrics.expose()
        return web.Response(body=exposed, headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _serve(self, request: web.Request, endpoint: _Endpoint) -> web.StreamResponse:
        key = self._door.key_of(request)
        body = await self._door.body_of(request)
        received = time.perf_counter()
        asked = endpoint.read(body)
        deployment = self._door.deployment_of(key, asked.model)
        require_feasible(asked, deployment)
        sender = _Sender(key.key_id, RANKS[key.priority_class], ttft_deadline_of(request))
        calls = list(_calls(asked, deployment, request_id_of(request), sender))
        tokens = self._tokens(calls) if key.tokens_per_minute is not None else 0
        async with self._door.admitted(request, key, len(calls), tokens) as admission:
            await self._schemas.require(asked.sampling.grammar, deployment.abilities)
            outlet = self._outlet(request, endpoint, asked)
            parts = [
                _Part(
                    call,
                    Lane(outlet, number * asked.sampling.n, asked.sampling.n, asked.tools),
                    RequestRecord(self._telemetry, self._metrics, call.request_id, deployment.name, received),
                )
                for number, call in enumerate(calls)
            ]
            try:
                return await self._answer(request, parts, outlet)
            finally:
                for part in parts:
                    admission.used(part.record.prompt_tokens, part.record.answer_tokens)

    def _tokens(self, calls: list[Call]) -> int:
        """About so many are the prompts."""
        prompts = self._relay.steering.prompts
        return sum(prompts.estimate(call.deployment, call.prompt) for call in calls)

    def _outlet(self, request: web.Request, endpoint: _Endpoint, asked: Asked) -> Outlet:
        shape = endpoint.shape(
            uuid.uuid4().hex,
            int(time.time()),
            asked.model,
            with_usage=asked.include_usage,
            with_logprobs=asked.sampling.logprobs is not None,
        )
        if asked.stream:
            writer = EventWriter(request, self._config.deadlines.client_write_s, self._turns)
            return StreamOutlet(shape, writer, asked.include_usage)
        return WholeOutlet(shape, len(asked.prompts) * asked.sampling.n)

    async def _answer(self, request: web.Request, parts: list[_Part], outlet: Outlet) -> web.StreamResponse:
        try:
            done = await self._relay_all(parts)
        except ApiError as error:
            return await outlet.fail(error)
        except (asyncio.CancelledError, ClientGone):
            raise
        except Exception:
            _log.exception("unexpected error while answering")
            return await outlet.fail(internal_error())
        wanted = request.headers.get(names.TIMINGS_HEADER) == "1"
        return await outlet.finish([finished for finished, _ in done], [timing for _, timing in done if wanted])

    async def _relay_all(self, parts: list[_Part]) -> list[tuple[Finished, RequestTiming]]:
        """All prompts of a request side by side. When one fails, the others are given up."""
        if len(parts) == 1:
            return [await self._relay_one(parts[0])]
        tasks = [asyncio.create_task(self._relay_one(part, among_others=True)) for part in parts]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel(_GIVEN_UP)
            await asyncio.wait(tasks)

    async def _relay_one(self, part: _Part, *, among_others: bool = False) -> tuple[Finished, RequestTiming]:
        """Relay one prompt; its record is closed on every way out."""
        with part.record.closing():
            finished, timing = await self._relay.answer(part.call, part.lane, part.record)
            part.lane.close(finished.reason)
            if among_others:  # which may take long; else the end of the answer follows at once
                await part.lane.flush()
        return finished, timing


def _calls(asked: Asked, deployment: DeploymentRoute, request_id: str, sender: _Sender) -> Iterator[Call]:
    """One for each prompt. Where the client named no seed, each prompt has another."""
    limit = asked.max_tokens if asked.max_tokens is not None else deployment.default_max_tokens
    for number, prompt in enumerate(asked.prompts):
        seed = asked.sampling.seed if asked.seeded else (asked.sampling.seed + number) % 2**SEED_BITS
        yield Call(
            request_id=request_id if len(asked.prompts) == 1 else f"{request_id}-{number}",
            deployment=deployment.name,
            prompt=prompt,
            sampling=msgspec.structs.replace(asked.sampling, max_tokens=limit, seed=seed),
            clip=asked.max_tokens is None,
            echo=asked.echo,
            priority=worker_priority(sender.rank, asked.priority),
            cache_salt=asked.cache_salt,
            key_id=sender.key_id,
            rank=sender.rank,
            ttft_deadline_s=sender.ttft_deadline_s,
        )
