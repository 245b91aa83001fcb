"""What clients ask of a model besides answers and embeddings: what there is, and what tokens it reads."""

from __future__ import annotations

from aiohttp import web

from inference.contracts import codec
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import DetokenizeRequest, Tokenized, TokenizeRequest
from inference.contracts.routing import WorkerRoute
from inference.router.admission.keys import may_call
from inference.router.choosing.roster import servable
from inference.router.errors import model_not_found
from inference.router.openai.feasible import require_layout, require_tokens
from inference.router.openai.models import model_entry, model_list
from inference.router.openai.tokens import TextOfTokens, read_detokenize, read_tokenize, token_list
from inference.router.table import TableKeeper
from inference.router.travel.any_worker import AnyWorker
from inference.router.web.door import Door
from inference.router.web.edge import request_id_of
from inference.router.workers.client import WorkerClient


class ModelEndpoints:
    """Handlers and what they share. Each call that a worker answers is a request against the limits of the key."""

    def __init__(self, door: Door, tables: TableKeeper, client: WorkerClient, any_worker: AnyWorker) -> None:
        self._door = door
        self._tables = tables
        self._client = client
        self._any_worker = any_worker

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/models", self.models),
            web.get("/v1/models/{model:.+}", self.model),
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

    async def tokenize(self, request: web.Request) -> web.Response:
        key = self._door.key_of(request)
        asked = read_tokenize(await self._door.body_of(request))
        deployment = self._door.deployment_of(key, asked.model)
        require_layout(asked.prompt, deployment)
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
            return _json(token_list(await self._any_worker.ask(deployment, "tokenising", ask)))

    async def detokenize(self, request: web.Request) -> web.Response:
        key = self._door.key_of(request)
        asked = read_detokenize(await self._door.body_of(request))
        deployment = self._door.deployment_of(key, asked.model)
        require_tokens(asked.tokens, "tokens", deployment)
        question = DetokenizeRequest(
            request_id=request_id_of(request), model_name=deployment.model_name, token_ids=tuple(asked.tokens)
        )
        async with self._door.admitted(request, key):
            told = await self._any_worker.ask(
                deployment, "detokenising", lambda worker: self._client.detokenize(worker, question)
            )
        return _json(TextOfTokens(told.text))


def _json(message: object) -> web.Response:
    return web.Response(body=codec.encode(message), content_type="application/json")
