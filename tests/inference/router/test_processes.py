"""Several router processes behind one port."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import psutil
import pytest

from inference.contracts import auth
from inference.contracts.states import Role
from inference.testing.valkey import ValkeyServer
from tests.inference.router.conftest import KEY, MODEL, SHORT, Bench, eventually
from tests.inference.router.scripted import SECRET
from tests.inference.router.test_main import ROOT, port, until_ready

__all__ = ["port"]


@pytest.fixture
def processes(valkey_server_for_routers: ValkeyServer, tmp_path: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    env = {
        **os.environ,
        "REDIS_URL": valkey_server_for_routers.url,
        "TANDEM_CLUSTER_SECRET": SECRET,
        "TANDEM_DATA": str(tmp_path / "processes"),
        "TANDEM_ROUTER_ID": "edge",
    }
    command = [sys.executable, "-m", "inference.router", "--port", str(port), "--processes", "2"]
    with subprocess.Popen(command, cwd=ROOT, env=env) as running:
        yield running
        for child in psutil.Process(running.pid).children() if running.poll() is None else ():
            child.kill()
        running.kill()


async def ask(port: int) -> int:
    """One request over a connection of its own."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": SHORT}]}
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session,
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
    await eventually(lambda: len(family.children()) == 2, within_s=30)

    def served_by() -> set[str]:
        return {window.source for window in bench.windows() if window.counters}

    await ask_until(port, lambda: served_by() >= {"router:edge-0", "router:edge-1"})

    exposed = await metrics(port)
    assert completed(exposed) == ["0", "1"]
    assert exposed.count("# TYPE tandem_router_requests_total counter") == 1

    victim, other = family.children()
    victim.kill()
    await eventually(lambda: len({child.pid for child in family.children()} - {victim.pid, other.pid}) == 1, 30)
    bench.redis.delete("tandem:windows")
    await ask_until(port, lambda: served_by() >= {"router:edge-0", "router:edge-1"})
    assert completed(await metrics(port)) == ["0", "1"], "a series for each that lives, once (F37)"

    children = family.children()
    processes.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(processes.wait, 30) == 0
    assert not psutil.wait_procs(children, timeout=5)[1]


async def test_they_end_when_the_process_that_started_them_is_killed(
    bench: Bench, processes: subprocess.Popen[bytes], port: int
) -> None:
    bench.worker(Role.UNIFIED)
    bench.publish([])
    await until_ready(port)
    family = psutil.Process(processes.pid)
    await eventually(lambda: len(family.children()) == 2, within_s=30)
    children = family.children()
    processes.kill()
    assert not (await asyncio.to_thread(psutil.wait_procs, children, 15))[1]
