"""The routes of a router: OpenAI's serving API, health, metrics."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import structlog
from aiohttp import web

from inference.contracts import auth, codec, names
from inference.contracts.routing import DeploymentRoute, ServingKeyEntry
from inference.router import openai_request
from inference.router.config import RouterConfig
from inference.router.edge import request_id_of
from inference.router.errors import ApiError, internal_error, model_not_found, unavailable
from inference.router.key_limits import Admission, KeyLimits
from inference.router.key_use import KeyUse
from inference.router.keys import may_call, require_model
from inference.router.metrics import Metrics
from inference.router.openai_answer import ChatShape, CompletionShape, model_list
from inference.router.openai_request import Asked
from inference.router.outlet import Outlet, StreamOutlet, WholeOutlet
from inference.router.pick import servable
from inference.router.record import RequestRecord
from inference.router.relay import Call, Relay
from inference.router.sse import ClientGone, EventWriter
from inference.router.table import TableKeeper
from inference.router.telemetry import Telemetry

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Endpoint:
    read: Callable[[bytes], Asked]
    shape: type[ChatShape] | type[CompletionShape]


_CHAT = _Endpoint(openai_request.read_chat, ChatShape)
_COMPLETION = _Endpoint(openai_request.read_completion, CompletionShape)


class Endpoints:
    """Handlers and what they share. `stopping`: set when the router takes no new requests."""

    def __init__(
        self,
        config: RouterConfig,
        tables: TableKeeper,
        relay: Relay,
        telemetry: Telemetry,
        metrics: Metrics,
        key_limits: KeyLimits,
        key_use: KeyUse,
    ) -> None:
        self._config = config
        self._tables = tables
        self._relay = relay
        self._telemetry = telemetry
        self._metrics = metrics
        self._key_limits = key_limits
        self._key_use = key_use
        self.stopping = False

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self.chat),
            web.post("/v1/completions", self.completions),
            web.get("/v1/models", self.models),
            web.get(names.HEALTH_LIVE, self.health_live),
            web.get(names.HEALTH_READY, self.health_ready),
            web.get(names.METRICS, self.metrics),
        ]

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, _CHAT)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, _COMPLETION)

    async def models(self, request: web.Request) -> web.Response:
        """Models that this key may call and that can serve now (F31)."""
        key = self._check_key(request)
        listed = [entry for entry in self._tables.deployments if may_call(key, entry) and servable(entry)]
        return web.Response(body=codec.encode(model_list(listed)), content_type="application/json")

    async def health_live(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def health_ready(self, request: web.Request) -> web.Response:
        """Ready: there are tables to serve from, and the router is not stopping."""
        missing = [
            text
            for text, holds in (
                ("no routing table yet", self._tables.routing is None),
                ("no key table yet", self._tables.keyring is None),
                ("stopping", self.stopping),
            )
            if holds
        ]
        status = "; ".join(missing) or "ok"
        return web.json_response({"status": status}, status=503 if missing else 200)

    async def metrics(self, request: web.Request) -> web.Response:
        if not auth.is_bearer(request.headers.get("Authorization"), self._config.cluster_secret, auth.PURPOSE_METRICS):
            raise ApiError(401, "Metrics need the cluster's metrics token.", code="invalid_token")
        return web.Response(body=self._metrics.expose(), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _serve(self, request: web.Request, endpoint: _Endpoint) -> web.StreamResponse:
        if self.stopping:
            raise unavailable("The router is stopping.", self._config.limits.retry_after_s)
        key = self._check_key(request)
        body = await self._read_body(request)
        received = time.perf_counter()
        asked = endpoint.read(body)
        deployment = self._tables.find(asked.model)
        if deployment is None:
            raise model_not_found(asked.model)
        require_model(key, deployment, asked.model)
        with self._key_limits.admit(key, time.monotonic()) as admission:
            return await self._answer_admitted(request, endpoint, asked, deployment, received, admission)

    async def _answer_admitted(
        self,
        request: web.Request,
        endpoint: _Endpoint,
        asked: Asked,
        deployment: DeploymentRoute,
        received: float,
        admission: Admission,
    ) -> web.StreamResponse:
        request_id = request_id_of(request)
        record = RequestRecord(self._telemetry, self._metrics, request_id, deployment.name, received)
        shape = endpoint.shape(uuid.uuid4().hex, int(time.time()), asked.model, asked.include_usage)
        outlet: Outlet = (
            StreamOutlet(shape, EventWriter(request, self._config.deadlines.client_write_s), asked.include_usage)
            if asked.stream
            else WholeOutlet(shape)
        )
        return await self._answer(request, _call(asked, deployment, request_id), outlet, record, admission)

    async def _answer(
        self, request: web.Request, call: Call, outlet: Outlet, record: RequestRecord, admission: Admission
    ) -> web.StreamResponse:
        """Relay one request; its record is closed on every way out."""
        try:
            finished, timing = await self._relay.answer(call, outlet, record)
        except ApiError as error:
            admission.refused = error.refused and not outlet.begun
            record.close_with(error)
            return await outlet.fail(error)
        except (asyncio.CancelledError, ClientGone):
            record.cancel()
            raise
        except Exception:
            _log.exception("unexpected error while answering")
            record.fail()
            return await outlet.fail(internal_error())
        wanted = request.headers.get(names.TIMINGS_HEADER) == "1"
        return await outlet.finish(finished, timing if wanted else None)

    def _check_key(self, request: web.Request) -> ServingKeyEntry:
        if self._tables.keyring is None:
            raise unavailable("No key table is known yet.", self._config.limits.retry_after_s)
        key = self._tables.keyring.check(request.headers.get("Authorization"), time.time())
        self._key_use.note(key.key_id)
        return key

    async def _read_body(self, request: web.Request) -> bytes:
        try:
            async with asyncio.timeout(self._config.deadlines.body_s):
                return await request.read()
        except TimeoutError:
            raise ApiError(408, "The request body did not arrive in time.", code="request_timeout") from None
        except web.HTTPRequestEntityTooLarge:
            limit = self._config.limits.max_body_bytes
            raise ApiError(413, f"The request body is larger than {limit} bytes.", code="request_too_large") from None


def _call(asked: Asked, deployment: DeploymentRoute, request_id: str) -> Call:
    limit = asked.max_tokens if asked.max_tokens is not None else deployment.default_max_tokens
    return Call(
        request_id=request_id,
        deployment=deployment.name,
        prompt=asked.prompt,
        sampling=msgspec.structs.replace(asked.sampling, max_tokens=limit),
        clip=asked.max_tokens is None,
        priority=asked.priority,
        cache_salt=asked.cache_salt,
    )
