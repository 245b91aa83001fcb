"""The budget of the router: what a token costs it, in times of what it costs a proxy that only passes bytes on.

Processor times of two processes that do the same work in turns, so that a busy machine slows both. No time is judged by
itself; what is judged is measured again while it is in doubt.
"""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from tests.bench.router.cost import sample
from tests.bench.router.fronts import Front, bare_proxy, stub_workers, tandem

#: What it was when this was last set (lower it when the router gets cheaper), and by how much it may grow. Both are
#: compared with paced tokens of the proxy: bursts cost it next to nothing.
TIMES_THE_PROXY = {"burst": 0.7, "paced": 2.15}
MAY_GROW = 1.3

_REQUESTS, _AT_ONCE = {"burst": 640, "paced": 64}, {"burst": 32, "paced": 64}
_LEAST, _MOST = 3, 9


@pytest.fixture
def fronts(tmp_path: Path) -> Iterator[tuple[Front, Front]]:
    """The router and the proxy, in front of the same workers."""
    with contextlib.ExitStack() as running:
        ports = running.enter_context(stub_workers())
        yield (
            running.enter_context(tandem(tmp_path / "router", ports)),
            running.enter_context(bare_proxy(tmp_path / "proxy", ports)),
        )


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the router needs a core of its own")
def test_a_token_costs_no_more_than_its_budget(fronts: tuple[Front, Front]) -> None:
    router, proxy = fronts
    ratios: dict[str, list[float]] = {model: [] for model in TIMES_THE_PROXY}
    for front, model in ((router, "burst"), (router, "paced"), (proxy, "paced")):
        _us_per_token(front, model)  # connections, caches
    while len(ratios["burst"]) < _LEAST or (_over(ratios) and len(ratios["burst"]) < _MOST):
        before = _us_per_token(proxy, "paced")
        mine = {model: _us_per_token(router, model) for model in ratios}
        bare = (before + _us_per_token(proxy, "paced")) / 2
        for model, cost in mine.items():
            ratios[model].append(cost / bare)
    told = {model: [round(ratio, 2) for ratio in some] for model, some in ratios.items()}
    print(told)
    assert not _over(ratios), (
        f"tokens cost more than {MAY_GROW} x {TIMES_THE_PROXY} times those of a bare proxy: {told}"
    )


def _over(ratios: dict[str, list[float]]) -> bool:
    """Whether a median is over budget."""
    return any(statistics.median(some) > MAY_GROW * TIMES_THE_PROXY[model] for model, some in ratios.items())


def _us_per_token(front: Front, model: str) -> float:
    return uvloop.run(sample(front, model, _REQUESTS[model], _AT_ONCE[model])).us_per_token
