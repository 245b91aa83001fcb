"""Real worker servers around stub engines, or around others, on one event loop and on real ports, for tests.

async with stub_fleet(prefill=1, decode=2) as fleet:
    table = fleet.table()
    fleet.decode[0].engine.faults.plant(Fault(point=FaultPoint.MID_DECODE, kind=FaultKind.CRASH))
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from aiohttp import web

from inference.contracts.abilities import in_common
from inference.contracts.reports import Address, WorkerLoad
from inference.contracts.routing import DeploymentRoute, RoutingTable, WorkerRoute
from inference.contracts.specs import WorkerSpec
from inference.contracts.states import ANSWERING_ROLES, Role, WorkerDesired
from inference.engine.interface import Embedder, Engine
from inference.process.tls import NodeTls
from inference.testing.stub_embedder import stub_engine_of
from inference.testing.stub_engine import StubEngine
from inference.testing.stub_settings import StubSettings
from inference.worker.limits import WorkerLimits
from inference.worker.server import WorkerServer

SECRET = "stub-cluster-secret"  # noqa: S105 - opens nothing but stubs
MODEL = "stub"

E = TypeVar("E", bound=Engine)


@dataclass(eq=False)
class FleetWorker(Generic[E]):
    """One worker of a fleet. `server.worker` holds its tickets and state, `engine` its blocks and faults."""

    engine: E
    server: WorkerServer
    http: Address
    alive: bool = True

    @property
    def spec(self) -> WorkerSpec:
        """With the role that it has now."""
        return self.server.worker.state.spec

    @property
    def route(self) -> WorkerRoute:
        info = self.engine.info
        return WorkerRoute(
            worker_id=self.spec.worker_id,
            incarnation=self.spec.incarnation,
            pool_id=self.spec.pool_id,
            node_id="node-1",
            role=self.spec.role,
            http=self.http,
            transfer=self.server.worker.state.transfer,
            fingerprint=info.fingerprint,
            kv_blocks_total=info.kv_blocks_total,
        )

    @property
    def load(self) -> WorkerLoad:
        return self.server.worker.load_now()

    @property
    def idle(self) -> bool:
        """Nothing runs, waits or is held: every block is free."""
        load = self.load
        return not (load.running or load.waiting or load.kv_blocks_used or load.tickets or load.handoffs)

    async def kill(self) -> None:
        """Vanish as a killed process does: all connections are cut without a word."""
        if self.alive:
            self.alive = False
            await _cut(self.server)
            self.engine.stop()

    async def stop(self) -> None:
        """End as after SIGTERM."""
        if self.alive:
            self.alive = False
            await self.server.stop()
            self.engine.stop()


@dataclass(eq=False)
class Fleet(Generic[E]):
    """secret: what callers authenticate with. local_prefill_tokens: of the deployment in `table`. tls: of its node;
    None: in clear."""

    workers: list[FleetWorker[E]] = field(default_factory=list)
    secret: str = SECRET
    local_prefill_tokens: int = 0
    default_max_tokens: int = 16
    context_length: int | None = None
    tls: NodeTls | None = None

    @property
    def prefill(self) -> list[FleetWorker[E]]:
        return [worker for worker in self.workers if worker.spec.role is Role.PREFILL]

    @property
    def decode(self) -> list[FleetWorker[E]]:
        """Workers that write answers: decode and unified."""
        return [worker for worker in self.workers if worker.spec.role in ANSWERING_ROLES]

    def table(self, version: int = 1) -> RoutingTable:
        """A routing table of one deployment with all workers that are alive."""
        deployment = DeploymentRoute(
            name=MODEL,
            model_name=MODEL,
            created=0,
            context_length=self.context_length or min(w.engine.info.context_length for w in self.workers),
            abilities=in_common(w.engine.info.abilities for w in self.workers),
            local_prefill_tokens=self.local_prefill_tokens,
            default_max_tokens=self.default_max_tokens,
            workers=tuple(worker.route for worker in self.workers if worker.alive),
            embeddings=all(isinstance(worker.engine, Embedder) for worker in self.workers),
        )
        return RoutingTable(version=version, deployments=(deployment,))

    async def enlist(self, spec: WorkerSpec, engine: E, limits: WorkerLimits | None = None) -> FleetWorker[E]:
        """Start a worker around `engine` and wait until it is ready."""
        server = WorkerServer(spec, engine, self.secret, limits or WorkerLimits(), self.tls)
        worker = FleetWorker(engine, server, await server.listen())
        self.workers.append(worker)
        await server.load()
        return worker

    def crash(self, engine: E) -> Callable[[], None]:
        """What ends the worker of `engine`, from any thread."""
        loop = asyncio.get_running_loop()

        def crash() -> None:
            worker = next(each for each in reversed(self.workers) if each.engine is engine)
            asyncio.run_coroutine_threadsafe(worker.kill(), loop)

        return crash

    async def settled(self, within_s: float = 5.0, workers: Iterable[FleetWorker[E]] | None = None) -> None:
        """Wait until every living worker (or each of `workers`) is idle.

        Raises:
            TimeoutError: naming what is still held.
        """
        watched: Sequence[FleetWorker[E]] = list(workers if workers is not None else self.workers)
        try:
            async with asyncio.timeout(within_s):
                while not all(worker.idle for worker in watched if worker.alive):
                    await asyncio.sleep(0.005)
        except TimeoutError:
            held = {w.spec.worker_id: w.load for w in watched if w.alive and not w.idle}
            raise TimeoutError(f"still held after {within_s:g} s: {held}") from None


class StubFleet(Fleet[StubEngine]):
    """Of stub engines."""

    async def add(
        self, role: Role, settings: StubSettings | None = None, limits: WorkerLimits | None = None
    ) -> FleetWorker[StubEngine]:
        """Start one more worker and wait until it is ready."""
        engine = stub_engine_of(settings or StubSettings(), MODEL)
        engine.crash = self.crash(engine)
        return await self.enlist(stub_spec(role, len(self.workers)), engine, limits)


def stub_spec(role: Role, number: int) -> WorkerSpec:
    """A spec for stub worker `number`."""
    return WorkerSpec(
        worker_id=f"{role}-{number}",
        incarnation=f"{role}-{number}-1",
        deployment=MODEL,
        pool_id=f"pool-{role}",
        role=role,
        desired=WorkerDesired.RUN,
        model_path=MODEL,
        model_name=MODEL,
        devices=(),
        engine="stub",
    )


@contextlib.asynccontextmanager
async def stub_fleet(
    prefill: int = 1,
    decode: int = 1,
    unified: int = 0,
    *,
    settings: StubSettings | None = None,
    limits: WorkerLimits | None = None,
    secret: str = SECRET,
    tls: NodeTls | None = None,
) -> AsyncIterator[StubFleet]:
    """So many stub workers of each role, all alike and ready; stopped when the block is left."""
    fleet = StubFleet(secret=secret, tls=tls)
    roles = [Role.PREFILL] * prefill + [Role.DECODE] * decode + [Role.UNIFIED] * unified
    try:
        for role in roles:
            await fleet.add(role, settings, limits)
        yield fleet
    finally:
        await asyncio.gather(*(worker.stop() for worker in fleet.workers))


async def _cut(server: WorkerServer) -> None:
    runner = server.runner
    loop = asyncio.get_running_loop()
    for listening in (sock for site in runner.sites for sock in _listening(site)):
        loop.remove_reader(listening.fileno())
    await asyncio.sleep(0)  # asyncio loses, unclosed, what it has accepted in this turn where the server closes in it
    for site in list(runner.sites):
        await site.stop()
    for connection in runner.server.connections if runner.server else ():
        if connection.transport is not None:
            connection.transport.abort()
    await server.worker.close()
    await runner.cleanup()


def _listening(site: web.BaseSite) -> Sequence[socket.socket]:
    listener = site._server
    return listener.sockets if isinstance(listener, asyncio.Server) else ()
