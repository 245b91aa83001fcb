"""What clients ask of a model besides answers: what there is, and what tokens it reads."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from inference.contracts import codec
from inference.contracts.errors import CLIENT_ERRORS, ErrorCode, TandemError
from inference.contracts.generation import Detokenized, DetokenizeRequest, Tokenized, TokenizeRequest
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.router.admission.keys import may_call
from inference.router.choosing.pick import servable
from inference.router.config import Limits
from inference.router.errors import bad_request, clients_fault, model_not_found, unavailable, workers_fault
from inference.router.openai.body import read_body
from inference.router.openai.models import model_entry, model_list
from inference.router.openai.tokens import TextOfTokens, read_detokenize, read_tokenize, token_list
from inference.router.table import TableKeeper
from inference.router.web.door import Door
from inference.router.web.edge import request_id_of
from inference.router.workers.client import WorkerClient

T = TypeVar("T", Tokenized, Detokenized)


class _ModelBody(msgspec.Struct):
    model: str


class ModelEndpoints:
    """Handlers and what they share. Each call for tokens counts as a request against the limits of the key."""

    def __init__(self, door: Door, tables: TableKeeper, client: WorkerClient, limits: Limits) -> None:
        self._door = door
        self._tables = tables
        self._client = client
        self._limits = limits
        self._rng = random.Random()  # noqa: S311 - spreads calls over workers

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self.models),
            web.get("/v1/models/{model:.+}", self.model),
            web.post("/v1/embeddings", self.embeddings),
            web.post("/tokenize", self.tokenize),
            web.post("/detokenize", self.detokenize),
        ]

    async def models(self, request: web.Request) -> web.Response:
        """Models that this key may call and that can serve now (F31)."""
        key = self._door.key_of(request)
        listed = [entry for entry in self._tables.deployments if may_call(key, entry) and servable(entry)]
        return _json(model_list(listed))

    async def model(self, request: web.Request) -> web.Response:
        """One of those, by any of the names that it may be asked for by."""
        key, name = self._door.key_of(request), request.match_info["model"]
        deployment = self._tables.find(name)
        if deployment is None or not may_call(key, deployment) or not servable(deployment):
            raise model_not_found(name)
        return _json(model_entry(name, deployment))

    async def embeddings(self, request: web.Request) -> web.Response:
        """No engine here makes any: which is said as such, and not by an address that does not exist."""
        key = self._door.key_of(request)
        model = read_body(await self._door.body_of(request), _ModelBody, {}).model
        self._door.deployment_of(key, model)
        raise bad_request(
            f"The model {model!r} is served by an engine that writes answers and makes no embeddings.",
            "model",
            "unsupported_endpoint",
        )

    async def tokenize(self, request: web.Request) -> web.Response:
        key = self._door.key_of(request)
        asked = read_tokenize(await self._door.body_of(request))
        deployment = self._door.deployment_of(key, asked.model)
        question = TokenizeRequest(
            request_id=request_id_of(request),
            model_name=deployment.model_name,
            prompt=asked.prompt,
            pieces=asked.pieces,
        )

        async def ask(worker: WorkerRoute) -> Tokenized:
            tokenized = await self._client.tokenize(worker, question)
            if tokenized.sampling_version < asked.prompt.version:
                raise TandemError(ErrorCode.NOT_READY, "runs a release that can't lay this prompt out")
            return tokenized

        async with self._door.admitted(request, key):
            return _json(token_list(await self._ask_any(deployment, ask)))

    async def detokenize(self, request: web.Request) -> web.Response:
        key = self._door.key_of(request)
        asked = read_detokenize(await self._door.body_of(request))
        deployment = self._door.deployment_of(key, asked.model)
        question = DetokenizeRequest(
            request_id=request_id_of(request), model_name=deployment.model_name, token_ids=tuple(asked.tokens)
        )
        async with self._door.admitted(request, key):
            told = await self._ask_any(deployment, lambda worker: self._client.detokenize(worker, question))
        return _json(TextOfTokens(told.text))

    async def _ask_any(self, deployment: DeploymentRoute, ask: Callable[[WorkerRoute], Awaitable[T]]) -> T:
        """Ask one worker, of any role, and others when it does not answer; those that are in sight first."""
        workers = list(deployment.workers)
        self._rng.shuffle(workers)
        workers.sort(key=lambda worker: not worker.in_sight)
        failed: TandemError | None = None
        for worker in workers[: self._limits.max_attempts]:
            try:
                return await ask(worker)
            except TandemError as error:
                if error.code in CLIENT_ERRORS - {ErrorCode.MODEL_NOT_FOUND}:
                    raise clients_fault(error) from error
                failed = error
        if failed is None or failed.code is ErrorCode.NOT_READY:
            raise unavailable(f"No worker of {deployment.name!r} is ready.", self._limits.retry_after_s)
        raise workers_fault("tokenising", failed.code, min(len(workers), self._limits.max_attempts))


def _json(message: object) -> web.Response:
    return web.Response(body=codec.encode(message), content_type="application/json")
