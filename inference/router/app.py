"""Wires a router together and starts and stops it."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import structlog
from aiohttp import web
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from inference.contracts.worker import PairReport
from inference.process.tasks import Background, end, keep_running
from inference.router.admission.key_limits import KeyLimits
from inference.router.admission.key_use import KeyUse
from inference.router.admission.limiter import Limiter, OwnLimiter
from inference.router.admission.rooms import Rooms
from inference.router.admission.shared_limiter import SharedLimiter
from inference.router.choosing.knowledge import Knowledge
from inference.router.config import CannotListen, Limits, RouterConfig
from inference.router.openai.schemas import Schemas
from inference.router.table import TableKeeper
from inference.router.telling.metrics import Metrics
from inference.router.telling.shared_metrics import SharedMetrics
from inference.router.telling.windows import Telemetry
from inference.router.travel.any_worker import AnyWorker
from inference.router.travel.live import LiveRequests
from inference.router.travel.relay import Relay
from inference.router.turns import Turns
from inference.router.web.connection import Connection
from inference.router.web.door import Door
from inference.router.web.edge import before_headers, speak_openai
from inference.router.web.embedding_endpoint import EmbeddingEndpoint
from inference.router.web.endpoints import Endpoints
from inference.router.web.model_endpoints import ModelEndpoints
from inference.router.workers.client import WorkerClient
from inference.router.workers.figures import Figures
from inference.router.workers.pairs import Pair, Pairs

_FORCED_STOP_S = 1.0
_FORGETS_EVERY_S = 5.0

#: Connections that wait to be accepted.
_BACKLOG = 128
_log = structlog.get_logger()


class Router:
    """A running router. Made by `running`."""

    def __init__(self, config: RouterConfig, redis: Redis) -> None:
        self.config = config
        limits = config.limits
        self.knowledge = _knowledge(limits, config.deadlines.first_event_s)
        self.live = LiveRequests(self.knowledge.standings)
        self.rooms = Rooms(limits.queue_requests, limits.queue_s, limits.retry_after_s)
        self.tables = TableKeeper(
            redis, config.data_dir, config.intervals.table_poll_s, lambda: self.forget(time.monotonic())
        )
        self.telemetry = Telemetry(redis, config.router_id, config.intervals.window_s, self.in_flight)
        metrics = self._own_metrics = Metrics(self.in_flight, self._waiting, self._table_version, self._pairs_known)
        self._background = Background()
        turns = Turns()
        self._client = WorkerClient(config.cluster_secret, config.deadlines, self._background, turns, config.worker_tls)
        self.pairs = Pairs(lambda: self.tables.deployments, self._client.preflight)
        self._trials: list[asyncio.Task[None]] = []
        relay = Relay(
            *(self._client, self.tables.roster, self.live, self.knowledge, self.rooms),
            *(self._background, config.deadlines, limits),
        )
        self._figures = Figures(self._client, self.knowledge, lambda: self.tables.routing, config.intervals.figures_s)
        self.key_limits = KeyLimits(limits.retry_after_s)
        self._limiter = _limiter(config, self.key_limits)
        self.key_use = KeyUse(redis, config.intervals.key_use_s, time.time)
        self._metrics = SharedMetrics(metrics, config.siblings, config.number)
        self._door = Door(config, self.tables, self._limiter, self.key_use)
        self._schemas = Schemas()
        answers = Endpoints(
            *(config, self._door, self.tables, relay, self.telemetry, metrics, self._metrics, turns, self._schemas)
        )
        any_worker = AnyWorker(limits)
        models = ModelEndpoints(self._door, self.tables, self._client, any_worker)
        embeddings = EmbeddingEndpoint(
            config,
            self._door,
            self._client,
            any_worker,
            self.live,
            self.telemetry,
            metrics,
            self.knowledge.prompts.estimate,
        )
        app = web.Application(client_max_size=limits.max_body_bytes, middlewares=[speak_openai(metrics)])
        app.add_routes([*answers.routes(), *models.routes(), *embeddings.routes()])
        app.on_response_prepare.append(before_headers)
        # A client that leaves cancels its handler; everything a request holds is given back on that way out.
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=_FORCED_STOP_S)
        self._listener: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that is really bound (the configured one may be 0)."""
        if self._listener is None:
            raise RuntimeError("the router does not listen")
        return int(self._listener.sockets[0].getsockname()[1])

    def in_flight(self) -> Mapping[str, int]:
        """Live requests of every served deployment, zero included."""
        served = dict.fromkeys((entry.name for entry in self.tables.deployments), 0)
        return {**served, **self.live.in_flight()}

    def _waiting(self) -> Mapping[str, int]:
        return {entry.name: self.rooms.waiting(entry.name) for entry in self.tables.deployments}

    async def start(self) -> None:
        await self.tables.start()
        await self._metrics.start()
        await self._limiter.start()
        await self._runner.setup()
        server = self._runner.server
        if server is None:
            raise RuntimeError("aiohttp made no server")
        tls = _tls(self.config)
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                partial(Connection, server, self.config, self._own_metrics),
                self.config.host,
                self.config.port,
                ssl=tls,
                reuse_port=bool(self.config.number) or None,
                backlog=_BACKLOG,
            )
        except OSError as error:
            raise CannotListen(self.config, error) from error
        if self.config.number in ("", "0"):  # of several processes the first one asks for all
            self._trials = [asyncio.create_task(keep_running(self.pairs.run))]
        _log.info("router listens", host=self.config.host, port=self.port)

    async def stop(self) -> None:
        """Take no new requests, let running streams end; at the deadline tell what is left that it ends here."""
        self._door.stopping = True
        await end(self._trials)
        if self._listener is not None:
            self._listener.close()
        if not await self._idle_within(self.config.deadlines.stop_s):
            self.live.cut()
            await self._idle_within(_FORCED_STOP_S)
        await self._runner.cleanup()
        self._schemas.close()
        await self._metrics.close()
        await self._limiter.close()
        await self._background.close(self.config.deadlines.release_s)
        await self._client.close()

    async def follow_figures(self) -> None:
        """Keep what is known of the workers' load fresh, for ever."""
        await self._figures.run()

    def forget(self, now: float) -> None:
        """Let go of what is remembered of deployments, workers and keys that the tables don't name any more, and of
        what counts no more; what a live request still needs goes at a later call. now: of the monotonic clock."""
        named = self.tables.named
        deployments = named.deployments | self.live.in_flight().keys()
        self.knowledge.forget_all_but(named.workers, deployments, now)
        self.rooms.forget_all_but(deployments, named.keys)
        self._own_metrics.forget_all_but(deployments, now)
        self.key_use.forget_all_but(named.keys)
        self.key_limits.forget_old(now)

    async def run_forgetting(self) -> None:
        """Let go, for ever: besides with each new table, as requests end that needed what is gone."""
        while True:
            await asyncio.sleep(_FORGETS_EVERY_S)
            self.forget(time.monotonic())

    async def _idle_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.live.wait_until_idle()
        except TimeoutError:
            return False
        return True

    def _pairs_known(self) -> Mapping[Pair, PairReport]:
        return self.pairs.known()

    def _table_version(self) -> int | None:
        return None if self.tables.routing is None else self.tables.routing.version


@asynccontextmanager
async def running(config: RouterConfig) -> AsyncIterator[Router]:
    """A router that serves until the block is left.

    Raises:
        CannotListen: its address can't be had.
    """
    redis = _connect(config)
    router = Router(config, redis)
    followers: list[asyncio.Task[None]] = []
    try:
        await router.start()
        followers = [
            asyncio.create_task(keep_running(job))
            for job in (
                router.tables.run,
                router.tables.run_writer,
                router.telemetry.run_clock,
                router.telemetry.run_sender,
                router.key_use.run,
                router.run_forgetting,
                router.follow_figures,
            )
        ]
        yield router
    finally:
        await router.stop()
        await end(followers)
        await redis.aclose()


def _knowledge(limits: Limits, try_s: float) -> Knowledge:
    return Knowledge(
        most_blocks=limits.prefix_blocks, cool_s=limits.suspect_s, most_s=limits.suspect_most_s, try_s=try_s
    )


def _limiter(config: RouterConfig, limits: KeyLimits) -> Limiter:
    """One process counts for itself, one of several over all of them."""
    if config.siblings is None:
        return OwnLimiter(limits, time.monotonic)
    return SharedLimiter(limits, config.siblings, config.deadlines.ledger_s, time.monotonic)


def _tls(config: RouterConfig) -> ssl.SSLContext | None:
    if not config.tls_cert:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(config.tls_cert, config.tls_key)
    return context


def _connect(config: RouterConfig) -> Redis:
    """Short time-outs and no retries inside the client: each loop that uses it has its own way to go on."""
    return Redis.from_url(
        config.redis_url,
        socket_timeout=config.intervals.redis_timeout_s,
        socket_connect_timeout=config.intervals.redis_timeout_s,
        retry=Retry(NoBackoff(), 0),
    )
