"""A router through whose table many generations of deployments, workers and keys pass remembers those that are there.

What is looked through is all that the router holds on to, so a container that is added one day is looked through, too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time

from inference.contracts import auth
from inference.contracts.errors import ErrorCode
from inference.contracts.routing import ServingKeyEntry
from inference.contracts.states import PriorityClass, Role
from inference.router.config import Limits
from tests.inference.router.conftest import KEY, PATIENT, Bench, eventually
from tests.inference.router.reachable import reachable
from tests.inference.router.scripted import Misstep

GENERATIONS, EARLY = 1000, 100
_BETWEEN_S = 1000.0  # what counts for some minutes is over by the next generation
_NAMED = re.compile(r"gen-(\d+)-")


def remembered(root: object) -> dict[int, str]:
    """Generations of which a name is held on to, each with the way to one."""
    found: dict[int, str] = {}
    for each, way in reachable(root):
        text = each if isinstance(each, str) else each.decode(errors="replace") if isinstance(each, bytes) else ""
        for number in _NAMED.findall(text):
            found.setdefault(int(number), f"{way} {text[:80]!r}")
    return found


def entries(root: object) -> int:
    """Of all containers together."""
    return sum(len(each) for each, _ in reachable(root) if isinstance(each, dict | list | set | frozenset))


class Generations:
    """A pair and a unified worker, which are others each time, under another deployment, called with another key."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.number = 0
        self.now = time.monotonic()

    async def next(self) -> None:
        self.number += 1
        self.now += _BETWEEN_S
        bench, name = self.bench, f"gen-{self.number}-"
        for worker in bench.workers:
            worker.worker_id, worker.incarnation = f"{name}{worker.role}", f"{name}1"
            worker.missteps.clear()
        bench.keys = [
            ServingKeyEntry(
                key_id=f"{name}key",
                digest=auth.key_digest(KEY),
                requests_per_minute=100,
                priority_class=PriorityClass.LOW,
            )
        ]
        bench.deployment = bench.model = f"{name}chat"
        bench.publish()
        await bench.router.tables._refresh()
        if self.number % 3 == 0 or self.number in (EARLY, GENERATIONS):
            await self._ask()
        bench.router.forget(self.now)

    async def _ask(self) -> None:
        """A prompt of several blocks that is handed over; now and then a fault, a busy fleet, a client that leaves."""
        bench, prompt = self.bench, f"gen-{self.number}- " + 600 * "x"
        prefill, decode, unified = bench.workers
        unified.missteps["reserve"] = Misstep("refuse", ErrorCode.KV_FULL)
        assert (await bench.chat(prompt))[0] == 200
        if self.number % 20 == 1:
            prefill.missteps["prefill"] = Misstep("crash", times=1)
            await bench.chat(prompt)
        if self.number % 20 == 5:
            decode.missteps["reserve"] = Misstep("refuse", ErrorCode.KV_FULL)
            assert (await bench.chat(prompt))[0] == 503
        if self.number % 20 == 12:
            leaving = asyncio.create_task(bench.chat(prompt))
            await asyncio.sleep(0.001)
            leaving.cancel()
            await asyncio.wait({leaving})
            await bench.at_rest()

    async def settle(self) -> None:
        """What is only kept until it is sent is sent, and what looks by itself has looked."""
        router = self.bench.router
        await router.key_use.write()
        await router.pairs.try_new()
        try:
            await eventually(lambda: set(remembered(router)) == {self.number} and router.telemetry.unsent == 0)
        except AssertionError:
            raise AssertionError(remembered(router)) from None


async def test_of_a_thousand_generations_only_the_last_is_remembered(bench: Bench) -> None:
    for role in (Role.PREFILL, Role.DECODE, Role.UNIFIED):
        bench.worker(role)
    bench.deadlines = PATIENT
    bench.limits = Limits(prefix_blocks=16, queue_s=0.01)
    await bench.start()
    generations = Generations(bench)
    while generations.number < EARLY:
        await generations.next()
    await generations.settle()
    early = entries(bench.router)
    while generations.number < GENERATIONS:
        await generations.next()
    await generations.settle()
    assert entries(bench.router) <= 1.1 * early


async def test_what_a_request_still_needs_is_remembered_until_it_has_ended(bench: Bench) -> None:
    worker = bench.worker(Role.UNIFIED)
    worker.pace_s = 0.05
    await bench.start()
    running = asyncio.create_task(bench.chat())
    await eventually(lambda: worker.streams["generate"] == 1)
    bench.publish_deployments()
    await eventually(lambda: not bench.router.tables.deployments)
    room = bench.router.rooms.of("chat")
    bench.router.forget(time.monotonic() + _BETWEEN_S)
    assert any(standing.in_use for standing in bench.router.knowledge.standings.values())
    assert bench.router.rooms.of("chat") is room
    assert (await running)[0] == 200
    assert 'tandem_router_requests_total{deployment="chat",outcome="completed"} 1.0' in await bench.metrics()
    bench.router.forget(time.monotonic() + 3 * _BETWEEN_S)
    assert not bench.router.knowledge.standings
    assert 'deployment="chat"' not in await bench.metrics()


async def test_a_series_of_a_deployment_that_is_gone_is_told_until_it_was_scraped(bench: Bench) -> None:
    bench.worker(Role.UNIFIED)
    await bench.start()
    assert (await bench.chat())[0] == 200
    bench.publish_deployments()
    await eventually(lambda: not bench.router.tables.deployments)
    bench.router.forget(time.monotonic())
    assert 'tandem_router_tokens_total{deployment="chat",kind="output"}' in await bench.metrics()


async def test_a_name_that_stays_would_be_found(bench: Bench) -> None:
    await bench.start()
    assert remembered(bench.router) == {}
    bench.router.planted = {("gen-7-worker", "1"): dataclasses.replace(bench.limits)}
    assert set(remembered(bench.router)) == {7}
