"""What texts mean, as vectors: by deployments whose engine makes them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog
from aiohttp import web

from inference.contracts import codec
from inference.contracts.embeddings import Embedded, EmbedRequest
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import Prompt
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.router.config import RouterConfig
from inference.router.errors import bad_request, unavailable, workers_fault
from inference.router.openai.embeddings import EmbeddingsAsked, embedding_list, read_embeddings
from inference.router.openai.feasible import require_inputs
from inference.router.telling.metrics import Metrics
from inference.router.telling.windows import Telemetry
from inference.router.travel.any_worker import AnyWorker
from inference.router.travel.deadlines import deadlines_of
from inference.router.travel.live import LiveRequests
from inference.router.travel.outcome import Outcome
from inference.router.web.door import Door
from inference.router.web.edge import request_id_of
from inference.router.workers.client import WorkerClient

_log = structlog.get_logger()


class EmbeddingEndpoint:
    """estimate: about how many tokens a prompt has for a deployment."""

    def __init__(
        self,
        config: RouterConfig,
        door: Door,
        client: WorkerClient,
        any_worker: AnyWorker,
        live: LiveRequests,
        telemetry: Telemetry,
        metrics: Metrics,
        estimate: Callable[[str, Prompt], int],
    ) -> None:
        self._config = config
        self._door = door
        self._client = client
        self._any_worker = any_worker
        self._live = live
        self._telemetry = telemetry
        self._metrics = metrics
        self._estimate = estimate

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/embeddings", self.embeddings)]

    async def embeddings(self, request: web.Request) -> web.Response:
        """Where the engine makes none that is told, and no worker is asked."""
        key = self._door.key_of(request)
        body = await self._door.body_of(request)
        received = time.perf_counter()
        asked = read_embeddings(body)
        deployment = self._door.deployment_of(key, asked.model)
        if not deployment.embeddings:
            raise bad_request(
                f"The model {asked.model!r} is served by an engine that writes answers and makes no embeddings.",
                "model",
                "unsupported_endpoint",
            )
        require_inputs(asked.inputs, deployment)
        tokens = sum(self._estimate(deployment.name, each) for each in asked.inputs)
        async with self._door.admitted(request, key, tokens=tokens) as admission:
            outcome = Outcome(self._telemetry, self._metrics, request_id_of(request), deployment.name, received)
            with outcome.closing():
                embedded = await self._embed(asked, deployment, outcome)
            admission.used(embedded.tokens, 0)
        # Written as numbers they are long: in a thread, so that it holds up nobody's stream.
        answer = await asyncio.to_thread(lambda: codec.encode(embedding_list(asked, embedded)))
        return web.Response(body=answer, content_type="application/json")

    async def _embed(self, asked: EmbeddingsAsked, deployment: DeploymentRoute, outcome: Outcome) -> Embedded:
        """It is given up at the deadline of whole requests, and when the router stops.

        Raises:
            ApiError: there is no answer.
        """
        question = EmbedRequest(request_id=outcome.request_id, model_name=deployment.model_name, inputs=asked.inputs)
        deadlines = deadlines_of(deployment.policy, self._config.deadlines)

        async def ask(worker: WorkerRoute) -> tuple[Embedded, WorkerRoute]:
            embedded = await self._client.embed(worker, question, deadlines.first_event_s)
            if len(embedded.vectors) != len(asked.inputs) or any(len(each) % 4 for each in embedded.vectors):
                raise TandemError(ErrorCode.ENGINE_FAILED, "gave other vectors than were asked for")
            return embedded, worker

        with self._live.track(deployment.name) as place:
            try:
                async with self._live.within(place, deadlines.total_s):
                    embedded, worker = await self._any_worker.ask(deployment, "embedding", ask, outcome)
            except TimeoutError:
                if self._live.cut_short:
                    raise unavailable("The router is stopping.", self._config.limits.retry_after_s) from None
                raise workers_fault("embedding", ErrorCode.DEADLINE_EXCEEDED, outcome.retries + 1) from None
        took_s = outcome.completed(embedded.tokens, worker)
        _log.info(
            "embedded",
            request_id=outcome.request_id,
            deployment=deployment.name,
            worker=worker.worker_id,
            prompt_tokens=embedded.tokens,
            e2e_s=took_s,
            retries=outcome.retries,
        )
        return embedded
