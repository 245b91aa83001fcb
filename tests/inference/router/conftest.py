"""A router with scripted workers behind it and a Valkey server beside it."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis
from openai import AsyncOpenAI

from inference.contracts import auth, codec, names
from inference.contracts.routing import DeploymentRoute, KeyTable, RoutingTable, ServingKeyEntry
from inference.contracts.states import Role
from inference.contracts.timings import Window
from inference.router.app import Router, running
from inference.router.config import Deadlines, Intervals, Limits, RouterConfig
from inference.testing.valkey import ValkeyServer
from tests.inference.router.scripted import SECRET, Fabric, ScriptedWorker

KEY = auth.new_serving_key()
MODEL = "smol"
SHORT, LONG = "short", "a prompt that is longer than the limit of local prefill"
LOCAL_PREFILL_TOKENS = 16

#: Short enough for tests that wait for one, long enough for a busy machine.
DEADLINES = Deadlines(
    connect_s=1.0,
    reserve_s=0.8,
    first_event_s=1.0,
    idle_s=0.8,
    orphan_s=0.3,
    settle_s=0.1,
    release_s=1.0,
    body_s=2.0,
    client_write_s=1.0,
    total_s=20.0,
    stop_s=5.0,
)
#: For tests with many requests at once, in which nothing hangs.
PATIENT = dataclasses.replace(DEADLINES, connect_s=10.0, reserve_s=20.0, first_event_s=20.0, idle_s=20.0)
INTERVALS = Intervals(table_poll_s=0.2, redis_timeout_s=0.3, window_s=0.2)


@pytest.fixture(scope="session")
def valkey_server_for_routers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server


class Bench:
    """One router, its workers, and a client. The tables are published as the control plane would."""

    def __init__(self, server: ValkeyServer, data_dir: Path) -> None:
        self.server = server
        self.data_dir = data_dir
        self.fabric = Fabric()
        self.workers: list[ScriptedWorker] = []
        self.keys = [ServingKeyEntry(key_id="k1", digest=auth.key_digest(KEY))]
        self.deployment, self.model = "chat", MODEL
        self.deadlines = DEADLINES
        self.intervals = INTERVALS
        self.limits = Limits(suspect_s=1.0, queue_s=0.05)
        self.router: Router
        self.http: aiohttp.ClientSession
        self._versions = itertools.count(1)
        self.redis = redis.Redis.from_url(server.url, socket_timeout=5)
        self._stack = AsyncExitStack()

    def worker(self, role: Role, name: str | None = None, **script: object) -> ScriptedWorker:
        worker = ScriptedWorker(name or f"{role}-{len(self.workers)}", role, self.fabric, **script)
        self.workers.append(worker)
        return worker

    def pair(self) -> tuple[ScriptedWorker, ScriptedWorker]:
        return self.worker(Role.PREFILL), self.worker(Role.DECODE)

    async def start(self, **limits: object) -> Bench:
        for worker in self.workers:
            await worker.start()
        if self.server.running:
            self.publish()
        self._limits = limits
        await self._start_router()
        return self

    async def restart_router(self, between: Callable[[], None]) -> None:
        await self._stack.aclose()
        await asyncio.to_thread(between)
        await self._start_router()

    async def _start_router(self) -> None:
        config = RouterConfig(
            redis_url=self.server.url,
            cluster_secret=SECRET,
            data_dir=self.data_dir,
            router_id="r1",
            port=0,
            deadlines=self.deadlines,
            limits=dataclasses.replace(self.limits, **self._limits),
            intervals=self.intervals,
        )
        self.router = await self._stack.enter_async_context(running(config))
        self.http = await self._stack.enter_async_context(
            aiohttp.ClientSession(self.url, headers={"Authorization": f"Bearer {KEY}"})
        )

    @cached_property
    def openai(self) -> AsyncOpenAI:
        """The official client, as people have it but for its retries."""
        return self.client(max_retries=0)

    @cached_property
    def strict(self) -> AsyncOpenAI:
        """As `openai`, but one that refuses answers that are not of the types it knows. It does not know that text
        completions have no `finish_reason` before their end."""
        return self.client(max_retries=0, _strict_response_validation=True)

    def client(self, **options: Any) -> AsyncOpenAI:
        client = AsyncOpenAI(base_url=f"{self.url}/v1", api_key=KEY, **options)
        self._stack.push_async_callback(client.close)
        return client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.router.port}"

    def publish(self, workers: list[ScriptedWorker] | None = None) -> None:
        served = self.workers if workers is None else workers
        deployment = DeploymentRoute(
            name=self.deployment,
            model_name=self.model if self.deployment != "chat" else MODEL,
            created=1_700_000_000,
            context_length=1000,
            local_prefill_tokens=LOCAL_PREFILL_TOKENS,
            default_max_tokens=64,
            workers=tuple(worker.route for worker in served),
        )
        self.publish_deployments(deployment)

    def publish_deployments(self, *deployments: DeploymentRoute) -> None:
        number = next(self._versions)
        table = RoutingTable(version=number, deployments=deployments)
        self.redis.set(names.ROUTING_TABLE_KEY, codec.encode(table))
        self.redis.set(names.KEY_TABLE_KEY, codec.encode(KeyTable(version=number, keys=tuple(self.keys))))
        self.redis.publish(names.ROUTING_TABLE_CHANNEL, "")

    async def chat(self, text: str = LONG, **body: object) -> tuple[int, dict]:
        """One answer without the OpenAI client: status and body."""
        content = {"model": self.model, "messages": [{"role": "user", "content": text}], **body}
        async with self.http.post("/v1/chat/completions", json=content) as answer:
            return answer.status, await answer.json()

    async def stream(self, text: str = LONG, **body: object) -> list[tuple[str | None, str]]:
        """The events of one streamed answer as (name, data)."""
        content = {"model": self.model, "messages": [{"role": "user", "content": text}], "stream": True, **body}
        headers = {names.TIMINGS_HEADER: "1"}
        async with self.http.post("/v1/chat/completions", json=content, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return events_of(await answer.text())

    async def metrics(self) -> str:
        headers = {"Authorization": auth.bearer(SECRET, auth.PURPOSE_METRICS)}
        async with self.http.get("/metrics", headers=headers) as answer:
            return await answer.text()

    def windows(self) -> list[Window]:
        entries = self.redis.xrange(names.WINDOW_STREAM)
        return [codec.decode(entry[names.STREAM_FIELD.encode()], Window) for _, entry in entries]

    @property
    def held(self) -> int:
        """Tickets and streams open on all workers."""
        return sum(len(worker.tickets) + sum(worker.streams.values()) for worker in self.workers)

    async def at_rest(self) -> None:
        """Everything was given back, on the workers and in the router's own account."""
        await eventually(lambda: self.held == 0 and not self.router.live.loads())
        assert sum(self.router.live.in_flight().values()) == 0

    async def close(self) -> None:
        await self._stack.aclose()
        for worker in self.workers:
            await worker.stop()
        if self.server.running:
            self.redis.flushall()
        self.redis.close()


def events_of(text: str) -> list[tuple[str | None, str]]:
    events = []
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        name = next((line[7:] for line in lines if line.startswith("event: ")), None)
        events.append((name, next(line[6:] for line in lines if line.startswith("data: "))))
    return events


async def eventually(holds: Callable[[], object], within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.01)


@pytest.fixture
async def bench(valkey_server_for_routers: ValkeyServer, tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(valkey_server_for_routers, tmp_path / "data")
    try:
        yield bench
    finally:
        await bench.close()


@pytest.fixture
async def bench_of_its_own(tmp_path: Path) -> AsyncIterator[Bench]:
    """With a server that the test may stop."""
    with ValkeyServer(tmp_path / "valkey") as server:
        bench = Bench(server, tmp_path / "data")
        try:
            yield bench
        finally:
            await bench.close()
