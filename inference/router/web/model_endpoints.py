"""What clients ask of a model besides answers: what there is, what tokens it reads, what texts mean to it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiohttp import web

from inference.contracts import codec
from inference.contracts.embeddings import Embedded, EmbedRequest
from inference.contracts.errors import BUSY_ERRORS, CLIENT_ERRORS, ErrorCode, TandemError
from inference.contracts.generation import Detokenized, DetokenizeRequest, Tokenized, TokenizeRequest
from inference.contracts.prompts import Prompt
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.router.admission.keys import may_call
from inference.router.choosing.roster import servable
from inference.router.config import RouterConfig
from inference.router.errors import bad_request, clients_fault, model_not_found, unavailable, workers_fault
from inference.router.openai.embeddings import embedding_list, read_embeddings
from inference.router.openai.models import model_entry, model_list
from inference.router.openai.tokens import TextOfTokens, read_detokenize, read_tokenize, token_list
from inference.router.table import TableKeeper
from inference.router.web.door import Door
from inference.router.web.edge import request_id_of
from inference.router.workers.client import WorkerClient

T = TypeVar("T", Tokenized, Detokenized, Embedded)


class ModelEndpoints:
    """Handlers and what they share. Each call that a worker answers is a request against the limits of the key.
    estimate: about how many tokens a prompt has for a deployment."""

    def __init__(
        self,
        door: Door,
        tables: TableKeeper,
        client: WorkerClient,
        config: RouterConfig,
        estimate: Callable[[str, Prompt], int],
    ) -> None:
        self._door = door
        self._tables = tables
        self._client = client
        self._limits = config.limits
        self._deadlines = config.deadlines
        self._estimate = estimate
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
        """Of deployments whose engine makes them; of another one that is told, and no worker is asked."""
        key = self._door.key_of(request)
        asked = read_embeddings(await self._door.body_of(request))
        deployment = self._door.deployment_of(key, asked.model)
        if not deployment.embeddings:
            raise bad_request(
                f"The model {asked.model!r} is served by an engine that writes answers and makes no embeddings.",
                "model",
                "unsupported_endpoint",
            )
        question = EmbedRequest(
            request_id=request_id_of(request), model_name=deployment.model_name, inputs=asked.inputs
        )
        within_s = deployment.policy.first_token_s or self._deadlines.first_event_s

        async def ask(worker: WorkerRoute) -> Embedded:
            embedded = await self._client.embed(worker, question, within_s)
            if len(embedded.vectors) != len(asked.inputs) or any(len(each) % 4 for each in embedded.vectors):
                raise TandemError(ErrorCode.ENGINE_FAILED, "gave other vectors than were asked for")
            return embedded

        tokens = sum(self._estimate(deployment.name, each) for each in asked.inputs)
        async with self._door.admitted(request, key, tokens=tokens) as admission:
            embedded = await self._ask_any(deployment, "embedding", ask)
            admission.used(embedded.tokens, 0)
        # Written as numbers they are long: in a thread, so that it holds up nobody's stream.
        return await asyncio.to_thread(lambda: _json(embedding_list(asked, embedded)))

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
            return _json(token_list(await self._ask_any(deployment, "tokenising", ask)))

    async def detokenize(self, request: web.Request) -> web.Response:
        key = self._door.key_of(request)
        asked = read_detokenize(await self._door.body_of(request))
        deployment = self._door.deployment_of(key, asked.model)
        question = DetokenizeRequest(
            request_id=request_id_of(request), model_name=deployment.model_name, token_ids=tuple(asked.tokens)
        )
        async with self._door.admitted(request, key):
            told = await self._ask_any(
                deployment, "detokenising", lambda worker: self._client.detokenize(worker, question)
            )
        return _json(TextOfTokens(told.text))

    async def _ask_any(self, deployment: DeploymentRoute, stage: str, ask: Callable[[WorkerRoute], Awaitable[T]]) -> T:
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
        if failed is None or failed.code in BUSY_ERRORS:
            code = ErrorCode.NOT_READY if failed is None else failed.code
            text = f"No worker of {deployment.name!r} can do this now."
            raise unavailable(text, self._limits.retry_after_s, code)
        raise workers_fault(stage, failed.code, min(len(workers), self._limits.max_attempts))


def _json(message: object) -> web.Response:
    return web.Response(body=codec.encode(message), content_type="application/json")
