"""The budget of the router: what a token costs it, in times of what it costs vllm-router as it is delivered.

Both do the same work in turns on one core, and their processor time is what counts, so that a busy machine slows both.
Where a token seems to cost too much it is measured again. The other policy of vllm-router, `round_robin`, is no good
reference: beside busy processes its ratio moves by a fifth.
"""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.peers.environments import VLLM_ROUTER, prepare
from tests.bench.router.cost import Costs, measure, times
from tests.bench.router.fronts import DEFAULT, OTHERS_CORE, Front, stub_workers, tandem, vllm_router

#: What it was on a quiet machine when this was last set: `make test-budget` prints what it is. Lower it when the router
#: gets cheaper.
TIMES_VLLM_ROUTER = {"burst": 0.71, "paced": 1.4}
#: Growth by 30 % is found in spite of what two measurements differ by.
MAY_GROW = 1.25
#: Beside others that take turns with them on their core both find cold caches each time, which costs Python more.
MAY_GROW_BESIDE_OTHERS = 1.75

_BESIDE_OTHERS = 0.3  # of the time that it ran the router waited for its core

_ROUNDS, _REQUESTS = 10, 640
_TRIES = 2


@pytest.fixture
def fronts(tmp_path: Path) -> Iterator[list[Front]]:
    """The router and vllm-router, which is installed where it is missing; this process keeps off their core."""
    prepare(VLLM_ROUTER)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {OTHERS_CORE})
    try:
        with contextlib.ExitStack() as running:
            ports = running.enter_context(stub_workers())
            yield [
                running.enter_context(tandem(tmp_path / "router", ports)),
                running.enter_context(vllm_router(tmp_path / "vllm-router", ports, DEFAULT)),
            ]
    finally:
        os.sched_setaffinity(0, cores)


@pytest.mark.alone
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the router needs a core of its own")
def test_a_token_costs_no_more_than_its_budget(fronts: list[Front]) -> None:
    samples = [Costs(front, {model: [] for model in TIMES_VLLM_ROUTER}) for front in fronts]
    for _ in range(_TRIES):
        for kept, measured in zip(samples, measure(fronts, _ROUNDS, _REQUESTS), strict=True):
            for model, some in measured.samples.items():
                kept.samples[model].extend(some)
        found = {model: round(times(*samples, model), 2) for model in TIMES_VLLM_ROUTER}
        print(f"what a token costs, in times of what it costs vllm-router: {found}", flush=True)
        may_grow = MAY_GROW_BESIDE_OTHERS if _beside_others(samples[0]) else MAY_GROW
        over = [model for model, ratio in found.items() if ratio > may_grow * TIMES_VLLM_ROUTER[model]]
        if not over:
            return
    pytest.fail(f"over budget: {' and '.join(over)}: {found}, to be at most {may_grow} x {TIMES_VLLM_ROUTER}")


def _beside_others(router: Costs) -> bool:
    samples = [sample for some in router.samples.values() for sample in some]
    waited = statistics.median(sample.waited_s / sample.cpu_s for sample in samples)
    print(f"the router waited {waited:.0%} of the time that it ran")
    return waited > _BESIDE_OTHERS
