"""Several router processes, as they run in production, before the same workers: the work is spread, nobody is hot, and
conversations keep their place all the same. Counts, not times."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections import Counter
from collections.abc import Iterator

import aiohttp
import psutil
import pytest

from inference.testing.fleet import MODEL, stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.worker.limits import WorkerLimits
from tests.inference.router.conftest import KEY, Bench, eventually
from tests.inference.router.scripted import SECRET
from tests.inference.router.test_main import port, until_ready
from tests.inference.router.test_processes import COUNT, processes

__all__ = ["port", "processes"]

pytestmark = pytest.mark.e2e

DECODE, AT_ONCE = 4, 96
STUB = StubSettings(
    kv_blocks=4096, decode_s_per_token=0.03, max_running=96, prefill_chunk_tokens=2048, prefix_cache=True
)
SYSTEMS = ("You are brief, and you never begin with a greeting. " * 6, "You are a poet who rides a tandem. " * 8)


class Traffic:
    """Conversations of one to five turns, all of which begin with one of a few long system messages; as many as
    `AT_ONCE` of them talk at a time. Each request comes over a connection of its own, so by chance to any process."""

    def __init__(self, port: int, seed: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/chat/completions"
        self._rng = random.Random(seed)
        self.requests: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.stayed = self.moved = 0

    async def run(self, conversations: int) -> None:
        numbers = iter(range(conversations))
        await asyncio.gather(*(self._talk(numbers) for _ in range(AT_ONCE)))

    async def _talk(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            messages = [{"role": "system", "content": self._rng.choice(SYSTEMS)}]
            before = None
            for turn in range(self._rng.randint(1, 5)):
                question = f"question {turn} of {number}: " + "word " * self._rng.randint(1, 20)
                messages.append({"role": "user", "content": question})
                worker = await self._ask(messages)
                self.stayed += worker == before
                self.moved += before not in (None, worker)
                before = worker
                messages.append({"role": "assistant", "content": f"answer {turn} of {number}"})

    async def _ask(self, messages: list[dict[str, str]]) -> str:
        body = {"model": MODEL, "messages": messages, "max_tokens": self._rng.randint(4, 24)}
        headers = {"Authorization": f"Bearer {KEY}", "X-Tandem-Timings": "1"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(self._url, json=body) as answer,
        ):
            assert answer.status == 200, await answer.text()
            told = (await answer.json())["tandem"]
        worker = told["decode_worker"]
        self.requests[worker] += 1
        self.tokens[worker] += told["prompt_tokens"] + told["completion_tokens"]
        return worker


async def test_each_decode_worker_gets_its_share_within_a_tenth(
    bench: Bench, processes: subprocess.Popen[bytes], port: int
) -> None:
    limits = WorkerLimits(max_prefills=AT_ONCE)
    async with stub_fleet(2, DECODE, settings=STUB, limits=limits, secret=SECRET) as fleet:
        fleet.local_prefill_tokens = 128
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(lambda: len(psutil.Process(processes.pid).children()) == COUNT, within_s=30)
        await until_ready(port)
        traffic = Traffic(port, seed=1)
        await traffic.run(300)
        assert len({window.source for window in bench.windows() if window.counters}) == COUNT
        await fleet.settled()
    for counted in (traffic.requests, traffic.tokens):
        ideal = sum(counted.values()) / DECODE
        assert len(counted) == DECODE
        assert max(abs(count - ideal) for count in counted.values()) <= 0.1 * ideal, counted
    assert traffic.stayed > (traffic.stayed + traffic.moved) / DECODE, "more than by chance"
