from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis.asyncio
from aiohttp import web

from inference.agent.workers.client import NoAnswer, WorkerClient
from inference.agent.workers.windows import WindowCarrier, stamp
from inference.contracts import names
from inference.contracts.auth import PURPOSE_WORKER_HTTP, is_bearer
from inference.contracts.codec import decode, encode
from inference.contracts.reports import Address
from inference.contracts.timings import Counter, Window
from inference.contracts.worker import WindowBatch
from inference.testing.fleet import SECRET as STUB_SECRET
from inference.testing.fleet import stub_fleet
from inference.testing.tls import make_certificates
from inference.testing.valkey import ValkeyServer

SECRET = "s"


def window(second: int, worker_id: str = "w") -> Window:
    made = Window(second=second, source=f"worker:{worker_id}", deployment="d")
    made.count(Counter.OUTPUT_TOKENS)
    return made


@asynccontextmanager
async def worker(worker_id: str, *, hangs: bool = False) -> AsyncIterator[Address]:
    async def windows(request: web.Request) -> web.Response:
        if not is_bearer(request.headers.get("Authorization"), SECRET, PURPOSE_WORKER_HTTP):
            raise web.HTTPUnauthorized
        if hangs:
            await asyncio.sleep(600)
        return web.Response(body=encode(WindowBatch(windows=(window(0, worker_id),))))

    application = web.Application()
    application.router.add_get(names.WORKER_WINDOWS, windows)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield Address(host="127.0.0.1", port=runner.addresses[0][1])
    finally:
        await runner.cleanup()


def test_f14_windows_carry_the_clock_of_the_node_that_publishes_them() -> None:
    [older, newer] = stamp((window(-1), window(0)), now=1_700_000_000)
    assert (older.second, newer.second) == (1_699_999_999, 1_700_000_000)


async def test_a_hung_worker_keeps_no_other_from_being_carried_and_the_stream_is_capped(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path) as server:
        async with (
            redis.asyncio.Redis.from_url(server.url) as stream,
            WorkerClient(SECRET, 5.0) as client,
            worker("good") as good,
            worker("hung", hangs=True) as hung,
        ):
            carrier = WindowCarrier(
                client=client,
                stream=stream,
                ready=lambda: {"hung": hung, "good": good},
                interval_s=0.02,
                clock=lambda: 1_700_000_000.9,
            )
            running = asyncio.create_task(carrier.run())
            while await stream.xlen(names.WINDOW_STREAM) < 3:
                await asyncio.sleep(0.02)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            entries = await stream.xrange(names.WINDOW_STREAM)
    carried = [decode(fields[names.STREAM_FIELD.encode()], Window) for _, fields in entries]
    assert {window.source for window in carried} == {"worker:good"}
    assert {window.second for window in carried} == {1_700_000_000}


async def test_windows_of_a_time_without_redis_are_dropped_and_carrying_goes_on(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path) as server:
        async with (
            redis.asyncio.Redis.from_url(server.url, socket_connect_timeout=1) as stream,
            WorkerClient(SECRET, 5.0) as client,
            worker("w") as address,
        ):
            server.kill()
            carrier = WindowCarrier(client=client, stream=stream, ready=lambda: {"w": address}, interval_s=0.02)
            running = asyncio.create_task(carrier.run())
            await asyncio.sleep(0.3)
            server.start()
            async with asyncio.timeout(20):
                while not await stream.xlen(names.WINDOW_STREAM):
                    await asyncio.sleep(0.05)
            assert not running.done()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_worker_that_is_dialled_on_loopback_is_known_by_the_name_that_others_use(tmp_path: Path) -> None:
    tls = make_certificates(tmp_path, "10.0.0.9").node_tls()
    async with stub_fleet(prefill=0, tls=tls) as fleet:
        address = fleet.decode[0].http
        async with WorkerClient(STUB_SECRET, 5.0, tls=tls.client, named="10.0.0.9") as client:
            assert (await client.status(address)).ready
        async with WorkerClient(STUB_SECRET, 5.0, tls=tls.client) as client:
            with pytest.raises(NoAnswer, match="the worker's certificate is refused: IP address mismatch"):
                await client.status(address)
        async with WorkerClient(STUB_SECRET, 5.0) as client:
            with pytest.raises(NoAnswer, match="answered with 401: this worker takes calls over TLS only"):
                await client.status(address)


async def test_a_worker_that_refuses_or_talks_nonsense_gives_no_answer() -> None:
    async with worker("w") as address:
        async with WorkerClient("another secret", 5.0) as client:
            with pytest.raises(NoAnswer, match="answered with 401"):
                await client.windows(address)
        async with WorkerClient(SECRET, 5.0) as client:
            with pytest.raises(NoAnswer, match="answered with 404"):
                await client.status(address)
    async with WorkerClient(SECRET, 1.0) as client:
        with pytest.raises(NoAnswer):
            await client.status(Address(host="127.0.0.1", port=1))
