"""The router as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from inference.testing.valkey import ValkeyServer
from tests.inference.router.conftest import KEY, LONG, MODEL, Bench, events_of
from tests.inference.router.scripted import SECRET

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def process(valkey_server_for_routers: ValkeyServer, tmp_path: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    env = {
        **os.environ,
        "REDIS_URL": valkey_server_for_routers.url,
        "TANDEM_CLUSTER_SECRET": SECRET,
        "TANDEM_DATA": str(tmp_path / "process"),
    }
    command = [sys.executable, "-m", "inference.router", "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE) as running:
        yield running
        running.kill()


async def until_ready(port: int) -> None:
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/health/ready") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.05)


async def test_it_serves_and_stops_on_sigterm_after_its_streams(
    bench: Bench, process: subprocess.Popen[bytes], port: int
) -> None:
    _, decode = bench.pair()
    decode.pace_s = 0.1
    for worker in bench.workers:
        await worker.start()
    bench.publish()
    await until_ready(port)
    body = {"model": MODEL, "messages": [{"role": "user", "content": LONG}], "stream": True}
    headers = {"Authorization": f"Bearer {KEY}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body) as answer,
    ):
        assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        assert events_of(await answer.text())[-1] == (None, "[DONE]")
    assert await asyncio.to_thread(process.wait, 15) == 0
    log = (process.stderr.read() if process.stderr else b"").decode()
    assert "Traceback" not in log
    assert SECRET not in log
    assert KEY not in log


def test_it_says_what_is_missing_and_ends() -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "TANDEM_CLUSTER_SECRET")}
    done = subprocess.run(
        [sys.executable, "-m", "inference.router"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith("router: REDIS_URL is not set")


@pytest.mark.parametrize("processes", [1, 2])
def test_it_says_that_its_port_is_taken_and_ends(tmp_path: Path, processes: int) -> None:
    env = os.environ | {
        "REDIS_URL": "redis://127.0.0.1:1",
        "TANDEM_CLUSTER_SECRET": SECRET,
        "TANDEM_DATA": str(tmp_path),
    }
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "inference.router", "--port", str(port), "--processes", str(processes)]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"router: can't listen on 127.0.0.1, port {port}: " in done.stderr
    assert "--port or TANDEM_ROUTER_PORT" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_imports_neither_torch_nor_django() -> None:
    code = "import sys, inference.router.main; print(sorted({'torch', 'django', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"
