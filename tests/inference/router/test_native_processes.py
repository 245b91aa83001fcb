"""Worker processes with the real model, ended by `kill -9`, and a router process that ends so before them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
import pytest

from inference.contracts.codec import decode, encode, encode_text
from inference.contracts.reports import Address, WorkerLoad
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.specs import EngineSettings, WorkerSpec
from inference.contracts.states import Role
from inference.contracts.worker import ProcessAnnouncement, WorkerStatus
from inference.testing.fleet import MODEL, stub_spec
from inference.testing.worker_client import WorkerClient
from inference.worker.limits import WorkerLimits
from tests.inference.router.conftest import KEY, PATIENT, Bench, eventually
from tests.inference.router.scripted import SECRET
from tests.inference.router.test_main import ROOT, port, process, until_ready

__all__ = ["port", "process"]

pytestmark = pytest.mark.e2e

LEASE_S = 5.0
TOKENS = 48
PROMPT = "Tell me a long story about two riders who share one bike, and about what each of them sees. " * 2


@dataclass
class Process:
    spec: WorkerSpec
    running: subprocess.Popen[bytes]
    announce_file: Path

    @property
    def http(self) -> Address:
        return decode(self.announce_file.read_bytes(), ProcessAnnouncement).http

    @property
    def alive(self) -> bool:
        return self.running.poll() is None


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory, default_model_dir: Path) -> Iterator[list[Process]]:
    """A prefill worker and two decode workers, which load the model side by side."""
    folder = tmp_path_factory.mktemp("workers")
    settings = EngineSettings(kv_tokens=4096, prefill_chunk_tokens=64, threads=1)
    limits = encode_text(WorkerLimits(lease_s=LEASE_S))
    environment = {**os.environ, "TANDEM_CLUSTER_SECRET": SECRET, "TANDEM_WORKER_LIMITS": limits}
    with contextlib.ExitStack() as stack:
        started = []
        for number, role in enumerate((Role.PREFILL, Role.DECODE, Role.DECODE)):
            spec = msgspec.structs.replace(
                stub_spec(role, number), engine="native", model_path=str(default_model_dir), settings=settings
            )
            spec_file, announce_file = folder / f"{number}.spec", folder / f"{number}.announce"
            spec_file.write_bytes(encode(spec))
            words = ("-m", "inference.worker", "--spec", str(spec_file), "--announce", str(announce_file))
            output = stack.enter_context((folder / f"{number}.log").open("wb"))
            running = stack.enter_context(
                subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment, stdout=output, stderr=output)
            )
            stack.callback(running.kill)
            started.append(Process(spec, running, announce_file))
        yield started


@pytest.fixture
async def workers(processes: list[Process]) -> AsyncIterator[Workers]:
    async with WorkerClient(SECRET) as client:
        workers = Workers([process for process in processes if process.alive], client)
        async with asyncio.timeout(120):
            while not await workers.ready():
                await asyncio.sleep(0.1)
        yield workers


class Workers:
    """Those that are alive."""

    def __init__(self, processes: list[Process], client: WorkerClient) -> None:
        self.processes = processes
        self._client = client

    async def statuses(self) -> list[WorkerStatus]:
        return [await self._client.status(process.http) for process in self.processes if process.alive]

    async def ready(self) -> bool:
        if not all(process.announce_file.exists() for process in self.processes):
            return False
        return all(status.ready for status in await self.statuses())

    async def busy(self) -> list[Process]:
        loads = {status.worker_id: status.load for status in await self.statuses()}
        return [process for process in self.processes if process.alive and held(loads[process.spec.worker_id])]

    async def deployment(self) -> DeploymentRoute:
        routes = [
            WorkerRoute(
                worker_id=status.worker_id,
                incarnation=status.incarnation,
                pool_id=f"pool-{status.role}",
                node_id="node-1",
                role=status.role,
                http=process.http,
                transfer=status.transfer,
                fingerprint=status.fingerprint or "",
            )
            for status, process in zip(await self.statuses(), self.processes, strict=True)
        ]
        return DeploymentRoute(
            name=MODEL,
            model_name=MODEL,
            created=0,
            context_length=2048,
            local_prefill_tokens=0,
            default_max_tokens=16,
            workers=tuple(routes),
        )

    async def given_back(self, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while busy := await self.busy():
            assert time.monotonic() < deadline, f"still held: {[process.spec.worker_id for process in busy]}"
            await asyncio.sleep(0.05)


def held(load: WorkerLoad | None) -> bool:
    assert load is not None
    return bool(load.running or load.waiting or load.kv_blocks_used or load.tickets or load.handoffs)


class Stream:
    """One streamed greedy answer, as far as it was read."""

    def __init__(self) -> None:
        self.text = ""
        self.pieces = 0
        self.finish: str | None = None
        self.usage: dict | None = None
        self.done = False

    async def read(self, url: str, number: int = 0) -> Stream:
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": f"{PROMPT}{number}"}],
            "max_tokens": TOKENS,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        headers = {"Authorization": f"Bearer {KEY}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(f"{url}/v1/chat/completions", json=body) as answer,
        ):
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                if line.startswith(b"data: "):
                    self._take(line[6:].strip())
        return self

    def _take(self, data: bytes) -> None:
        assert not self.done
        if data == b"[DONE]":
            self.done = True
            return
        chunk = json.loads(data)
        assert "error" not in chunk, chunk
        self.usage = chunk["usage"] if chunk.get("usage") else self.usage
        for choice in chunk["choices"]:
            assert self.finish is None
            self.text += choice["delta"].get("content") or ""
            self.pieces += 1
            self.finish = choice["finish_reason"]

    @property
    def told(self) -> tuple[str, str | None, dict | None, bool]:
        return self.text, self.finish, self.usage, self.done


async def serve(bench: Bench, workers: Workers) -> None:
    """With a router in this process."""
    bench.model, bench.deadlines = MODEL, PATIENT
    await bench.start()
    bench.publish_deployments(await workers.deployment())
    await eventually(lambda: bench.router.tables.find(MODEL) is not None)


async def test_a_router_that_is_killed_leaves_nothing_behind_and_another_serves(
    bench: Bench, workers: Workers, process: subprocess.Popen[bytes], port: int
) -> None:
    """F08, F17: within the lease of the workers, whatever it was about to do for its streams."""
    bench.publish_deployments(await workers.deployment())
    await until_ready(port)
    streams = [Stream() for _ in range(6)]
    url = f"http://127.0.0.1:{port}"
    reading = [asyncio.create_task(stream.read(url, number)) for number, stream in enumerate(streams)]
    await eventually(lambda: sum(stream.pieces > 3 for stream in streams) >= 3, within_s=60)
    assert await workers.busy()
    process.kill()
    await workers.given_back(within_s=LEASE_S + 5)
    ends = await asyncio.gather(*reading, return_exceptions=True)
    assert all(isinstance(end, aiohttp.ClientError) for end in ends), ends
    assert not any(stream.done for stream in streams)

    await serve(bench, workers)
    for number, broken in enumerate(streams[:2]):
        whole = await Stream().read(bench.url, number)
        assert whole.done
        assert whole.text.startswith(broken.text)
    await bench.at_rest()
    await workers.given_back(within_s=5)


async def test_a_decode_worker_that_is_killed_in_the_middle_changes_no_byte_of_the_answer(
    bench: Bench, workers: Workers
) -> None:
    """F32: and usage is counted once."""
    await serve(bench, workers)
    undisturbed = await Stream().read(bench.url)
    assert undisturbed.usage is not None
    assert undisturbed.usage["completion_tokens"] > 20
    stream = Stream()
    reading = asyncio.create_task(stream.read(bench.url))
    await eventually(lambda: stream.pieces >= 8, within_s=60)
    (victim,) = [process for process in await workers.busy() if process.spec.role is Role.DECODE]
    victim.running.send_signal(signal.SIGKILL)
    victim.running.wait(10)
    disturbed = await reading
    details = "prompt_tokens_details"
    for usage in (undisturbed.usage, disturbed.usage):
        assert usage is not None
        usage.pop(details)  # what was cached of the prompt differs: it is asked the second time
    assert disturbed.told == undisturbed.told
    metrics = await bench.metrics()
    assert 'tandem_router_continuations_total{deployment="stub"} 1.0' in metrics
    written = 2 * undisturbed.usage["completion_tokens"]
    assert f'tandem_router_tokens_total{{deployment="stub",kind="output"}} {written}.0' in metrics
    await bench.at_rest()
    await workers.given_back(within_s=5)
