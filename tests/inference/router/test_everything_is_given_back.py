"""Whatever clients and workers do, in the end nothing is held: no KV block, no ticket, no count of any kind."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import pytest

from inference.contracts.routing import ServingKeyEntry
from inference.contracts.states import Role
from inference.testing.faults import Fault, FaultKind, FaultPoint
from inference.testing.fleet import MODEL, Fleet, stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.worker.limits import WorkerLimits
from tests.inference.router.conftest import PATIENT, Bench, eventually
from tests.inference.router.scripted import SECRET

#: Short leases and waits, so that what is lost with a worker is back within a second or two.
QUICK = WorkerLimits(lease_s=1.0, handoff_wait_s=1.5, handoff_s=1.0, kv_wait_s=0.5, stop_s=1.0)
STUB = StubSettings(kv_blocks=48, prefill_s_per_token=0.00005, decode_s_per_token=0.0005)
POINTS = (FaultPoint.BEFORE_PREFILL, FaultPoint.AFTER_PREFILL, FaultPoint.MID_TRANSFER, FaultPoint.MID_DECODE)
PROMPTS = ("Hi", "What is a tandem? " * 4, "word " * 60)


#: Refusals twice, since the others are over after the first.
KINDS = (FaultKind.REFUSE, FaultKind.SLOW, FaultKind.REFUSE, FaultKind.CRASH, FaultKind.HANG)


class Storm:
    """Random requests, of which many are broken off, and workers that break in between.

    kinds: of what breaks. scale: of all times, 1 where a token takes half a millisecond.
    """

    def __init__(
        self,
        bench: Bench,
        fleet: Fleet[Any],
        seed: int,
        kinds: Sequence[FaultKind] = KINDS,
        scale: float = 1.0,
    ) -> None:
        self.bench = bench
        self.fleet = fleet
        self.rng = random.Random(seed)
        self.kinds = kinds
        self.scale = scale
        self.ends: list[str] = []

    async def one(self) -> None:
        rng = self.rng
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": f"{rng.random()} {rng.choice(PROMPTS)}"}],
            "max_tokens": rng.choice((1, 2, 12, 40)),
            "n": rng.choice((1, 1, 1, 2)),
            "temperature": 0,
        }
        stream, leaves = rng.random() < 0.6, rng.random() < 0.3
        patience = self.scale * rng.uniform(0.0, 0.08) if leaves else 30.0
        try:
            async with asyncio.timeout(patience):
                self.ends.append(await self._read(body | {"stream": stream}))
        except TimeoutError:
            self.ends.append("left" if leaves else "hung")

    async def _read(self, body: dict) -> str:
        async with self.bench.http.post("/v1/chat/completions", json=body) as answer:
            text = await answer.text()
        if answer.status != 200:
            return str(answer.status)
        return "broken" if body["stream"] and "[DONE]" not in text else "whole"

    def hurt(self) -> None:
        """One fault of any kind, somewhere."""
        kind = self.rng.choice(self.kinds)
        living = [worker for worker in self.fleet.workers if worker.alive]
        alike = [worker for worker in living if worker.spec.role is Role.PREFILL]
        victim = self.rng.choice(living)
        left = len(alike) if victim in alike else len(living) - len(alike)
        if kind in (FaultKind.CRASH, FaultKind.HANG) and left <= 1:
            kind = FaultKind.REFUSE
        fault = Fault(point=self.rng.choice(POINTS), kind=kind, after=self.rng.randrange(4), seconds=0.05)
        victim.engine.faults.plant(fault)

    async def run(self, requests: int) -> None:
        async with asyncio.TaskGroup() as storm:
            for number in range(requests):
                storm.create_task(self.one())
                if number % 12 == 5:
                    self.hurt()
                if number % 40 == 20:
                    victim = self.rng.choice(self.fleet.workers)
                    others = [w for w in self.fleet.workers if w.spec.role is victim.spec.role and w.alive]
                    if victim.alive and len(others) > 1:
                        await victim.kill()
                await asyncio.sleep(self.scale * self.rng.uniform(0.0, 0.01))


@pytest.mark.parametrize("seed", range(4))
async def test_aborts_kills_and_retries_leave_nothing_behind(bench: Bench, seed: int) -> None:
    bench.model = MODEL
    bench.keys = [ServingKeyEntry(key_id="k1", digest=bench.keys[0].digest, requests_per_minute=10_000)]
    bench.deadlines = dataclasses.replace(PATIENT, reserve_s=2.0, first_event_s=2.0, idle_s=1.5, orphan_s=0.5)
    bench.limits = dataclasses.replace(bench.limits, queue_s=1.0, suspect_s=0.1, suspect_most_s=0.5)
    async with stub_fleet(3, 3, settings=STUB, limits=QUICK, secret=SECRET) as fleet:
        fleet.local_prefill_tokens = 48
        await bench.start()
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(lambda: bench.router.tables.find(MODEL) is not None)
        storm = Storm(bench, fleet, seed)
        await storm.run(160)
        assert len(storm.ends) == 160
        assert "hung" not in storm.ends
        assert "whole" in storm.ends
        await bench.at_rest()
        hung = [worker for worker in fleet.workers if worker.alive and worker.engine.heartbeat_age() > 1.0]
        await fleet.settled(within_s=10.0, workers=[worker for worker in fleet.workers if worker not in hung])
        for worker in hung:  # its engine will never turn again, and holds what a process would lose when it ends
            await worker.kill()
        assert not any(standing.in_use for standing in bench.router.knowledge.standings.values())
        assert bench.router.key_limits.live("k1") == 0
        assert len(bench.router.rooms.of(MODEL)) == 0
        await bench.restart_router(lambda: None)
