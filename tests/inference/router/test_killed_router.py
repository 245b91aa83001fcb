"""A router process that ends by `kill -9` under load: workers take back what it held, and the next router begins with
true counts."""

from __future__ import annotations

import asyncio
import subprocess
from collections import Counter

import aiohttp

from inference.contracts.sampling import Sampling
from inference.testing.fleet import MODEL, stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.testing.worker_client import WorkerClient
from inference.worker.limits import WorkerLimits
from tests.inference.router.conftest import KEY, PATIENT, Bench, eventually
from tests.inference.router.scripted import SECRET
from tests.inference.router.test_main import port, process, until_ready

__all__ = ["port", "process"]

LEASE_S = 1.0
SLOW = StubSettings(prefill_s_per_token=0.0005, decode_s_per_token=0.02)
PROMPTS = ("Hi", "a prompt that is handed over " * 8)


async def ask(port: int, number: int) -> None:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": f"{number} {PROMPTS[number % 2]}"}],
        "max_tokens": 400,
        "stream": bool(number % 3),
    }
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session,
        session.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body) as answer,
    ):
        await answer.read()


async def test_what_a_killed_router_held_is_given_back_within_a_lease_and_the_next_one_spreads_evenly(
    bench: Bench, process: subprocess.Popen[bytes], port: int
) -> None:
    """F08: also what it was about to use. F17: nothing of the load of the first is counted by the second."""
    bench.model, bench.deadlines = MODEL, PATIENT
    limits = WorkerLimits(lease_s=LEASE_S)
    async with stub_fleet(1, 2, settings=SLOW, limits=limits, secret=SECRET) as fleet, WorkerClient(SECRET) as caller:
        fleet.local_prefill_tokens = 32
        bench.publish_deployments(*fleet.table().deployments)
        await until_ready(port)
        asking = [asyncio.create_task(ask(port, number)) for number in range(20)]
        await eventually(lambda: sum(worker.load.running for worker in fleet.decode) >= 4, within_s=20)
        for worker in fleet.decode:  # as the router would have, a moment before it died
            await caller.reserve(worker.http, "and never used", Sampling(max_tokens=8))
        process.kill()
        await fleet.settled(within_s=LEASE_S + 5)
        ends = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(end, aiohttp.ClientError) for end in ends), ends

        for worker in fleet.workers:
            worker.engine.settings = StubSettings(decode_s_per_token=0.002)
        await bench.start()
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(lambda: bench.router.tables.find(MODEL) is not None)
        timings = await asyncio.gather(*(timing(bench, number) for number in range(40)))
        spread = Counter(each["decode_worker"] for each in timings)
        assert min(spread.values()) >= 16, spread
        await fleet.settled()
        await bench.at_rest()
        await bench.restart_router(lambda: None)


async def timing(bench: Bench, number: int) -> dict:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": f"{number} {PROMPTS[number % 2]}"}],
        "max_tokens": 20,
    }
    async with bench.http.post("/v1/chat/completions", json=body, headers={"X-Tandem-Timings": "1"}) as answer:
        assert answer.status == 200
        return (await answer.json())["tandem"]
