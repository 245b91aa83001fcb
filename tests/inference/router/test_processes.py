"""Several router processes behind one port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import aiohttp
import psutil
import pytest

from inference.contracts import auth
from inference.contracts.routing import ServingKeyEntry
from inference.contracts.states import Role
from inference.router.config import read_config
from inference.router.processes import Kept
from inference.testing.valkey import ValkeyServer
from tests.inference.router.conftest import KEY, MODEL, SHORT, Bench, eventually
from tests.inference.router.scripted import SECRET, Misstep
from tests.inference.router.test_main import ROOT, port, until_ready

COUNT = 3
NUMBERS = [str(number) for number in range(COUNT)]
LIMITED_KEY, LONELY_KEY = auth.new_serving_key(), auth.new_serving_key()

__all__ = ["port"]


@pytest.fixture
def processes(valkey_server_for_routers: ValkeyServer, tmp_path: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    env = {
        **os.environ,
        "REDIS_URL": valkey_server_for_routers.url,
        "TANDEM_CLUSTER_SECRET": SECRET,
        "TANDEM_DATA": str(tmp_path / "processes"),
        "TANDEM_ROUTER_ID": "edge",
        "TANDEM_ROUTER_LEDGER_S": "20",
    }
    command = [sys.executable, "-m", "inference.router", "--port", str(port), "--processes", str(COUNT)]
    with subprocess.Popen(command, cwd=ROOT, env=env) as running:
        yield running
        for child in psutil.Process(running.pid).children() if running.poll() is None else ():
            child.kill()
        running.kill()


async def ask(port: int, key: str = KEY) -> int:
    """One request over a connection of its own."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": SHORT}]}
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as session,
        session.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body) as answer,
    ):
        return answer.status


async def metrics(port: int) -> str:
    headers = {"Authorization": auth.bearer(SECRET, auth.PURPOSE_METRICS)}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics", headers=headers) as answer,
    ):
        return await answer.text()


def completed(exposed: str) -> list[str]:
    """The number of each process that a count of completed requests is from."""
    series = r'tandem_router_requests_total{deployment="chat",outcome="completed",process="(\d+)"}'
    return sorted(re.findall(series, exposed))


def served_by(bench: Bench) -> set[str]:
    """The processes that have had requests."""
    return {window.source for window in bench.windows() if window.counters}


async def ask_until(port: int, holds: object) -> None:
    async with asyncio.timeout(30):
        while not holds():  # type: ignore[operator]
            assert await ask(port) == 200
            await asyncio.sleep(0.02)


async def test_requests_go_to_all_of_them_and_one_that_dies_is_replaced(
    bench: Bench, processes: subprocess.Popen[bytes], port: int
) -> None:
    worker = bench.worker(Role.UNIFIED)
    await worker.start()
    bench.publish()
    await until_ready(port)
    family = psutil.Process(processes.pid)
    await eventually(lambda: len(family.children()) == COUNT, within_s=30)

    await ask_until(port, lambda: served_by(bench) >= {f"router:edge-{number}" for number in NUMBERS})

    exposed = await metrics(port)
    assert completed(exposed) == NUMBERS
    assert exposed.count("# TYPE tandem_router_requests_total counter") == 1

    before = family.children()
    before[0].kill()
    await eventually(lambda: len({child.pid for child in family.children()} - {each.pid for each in before}) == 1, 30)
    bench.redis.delete("tandem:windows")
    await ask_until(port, lambda: served_by(bench) >= {f"router:edge-{number}" for number in NUMBERS})
    assert completed(await metrics(port)) == NUMBERS, "a series for each that lives, once (F37)"

    children = family.children()
    processes.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(processes.wait, 30) == 0
    assert not psutil.wait_procs(children, timeout=5)[1]


async def test_one_that_can_not_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, valkey_server_for_routers: ValkeyServer
) -> None:
    """For want of processes or memory, at that moment: no reason for the others to end."""
    env = {"REDIS_URL": valkey_server_for_routers.url, "TANDEM_CLUSTER_SECRET": SECRET}
    kept, stop, tries = Kept(read_config(env), 1, str(tmp_path), 0), asyncio.Event(), 0

    async def start(*_: object, **__: object) -> NoReturn:
        nonlocal tries
        tries += 1
        if tries == 2:
            stop.set()
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    await kept.keep(stop)
    assert tries == 2


async def test_they_end_when_the_process_that_started_them_is_killed(
    bench: Bench, processes: subprocess.Popen[bytes], port: int
) -> None:
    bench.worker(Role.UNIFIED)
    bench.publish([])
    await until_ready(port)
    family = psutil.Process(processes.pid)
    await eventually(lambda: len(family.children()) == COUNT, within_s=30)
    children = family.children()
    processes.kill()
    assert not (await asyncio.to_thread(psutil.wait_procs, children, 15))[1]


async def test_limits_of_keys_hold_over_all_of_them(
    bench: Bench, processes: subprocess.Popen[bytes], port: int
) -> None:
    """F17: and one that is killed gives back what it had."""
    worker = bench.worker(Role.UNIFIED)
    await worker.start()
    limited = ServingKeyEntry(key_id="k2", digest=auth.key_digest(LIMITED_KEY), requests_per_minute=10)
    lonely = ServingKeyEntry(key_id="k3", digest=auth.key_digest(LONELY_KEY), max_concurrent=1)
    bench.keys += [limited, lonely]
    bench.publish()
    await until_ready(port)

    await ask_until(port, lambda: len(served_by(bench)) == COUNT)
    answers = [await ask(port, LIMITED_KEY) for _ in range(40)]
    assert (answers.count(200), answers.count(429)) == (10, 30)

    worker.missteps["generate"] = Misstep("hang", after=2)
    reader, writer = await begin_stream(port, LONELY_KEY)
    assert [await ask(port, LONELY_KEY) for _ in range(6)] == [429] * 6
    holder_of(processes, writer).kill()
    with contextlib.suppress(ConnectionError):
        await reader.read()
    worker.missteps.clear()
    async with asyncio.timeout(10):
        while await ask_one_that_lives(port, LONELY_KEY) != 200:
            await asyncio.sleep(0.02)
    writer.close()


async def ask_one_that_lives(port: int, key: str) -> int | None:
    """None: the connection was with one that has just ended."""
    try:
        return await ask(port, key)
    except aiohttp.ClientConnectionError:
        return None


async def begin_stream(port: int, key: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request whose answer has begun."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": SHORT}], "stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
    writer.write(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await reader.readuntil(b"data: ")
    return reader, writer


def holder_of(processes: subprocess.Popen[bytes], writer: asyncio.StreamWriter) -> psutil.Process:
    """The router process at the other end of a connection."""
    client = writer.get_extra_info("sockname")[1]
    return next(
        child
        for child in psutil.Process(processes.pid).children()
        if any(each.raddr and each.raddr.port == client for each in child.net_connections("tcp"))
    )
