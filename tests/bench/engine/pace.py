"""The pace of running answers while long prompts arrive: all cores in one worker, or half of them for each stage.

Workers are real processes behind a real router; the gaps between tokens are those that a client sees.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Any

from inference.contracts.states import Role
from tests.bench.engine.fleet import BenchFleet, WorkerPlan
from tests.bench.engine.load import ARRIVAL_EVERY_S, ARRIVAL_PROMPT_TOKENS, STEADY_STREAMS, Measured, apply_load
from tests.bench.engine.run import Run
from tests.bench.rows import Row, missing

KV_TOKENS = 20_480
WARM_UP_S, SECONDS = 8.0, 32.0
CHUNK = 128


@dataclass(frozen=True)
class Scenario:
    """The row that it gives, and its workers."""

    name: str
    plans: tuple[WorkerPlan, ...]
    target: float | None = None
    stretch: float | None = None
    better: str = "at most"


def scenarios() -> list[Scenario]:
    cores = tuple(sorted(os.sched_getaffinity(0)))
    half = max(1, len(cores) // 2)
    first, second = cores[:half], cores[half:] or cores[:half]
    split = (WorkerPlan(Role.PREFILL, first, CHUNK), WorkerPlan(Role.DECODE, second, CHUNK))
    return [
        Scenario(
            "one worker on all cores, whole prompts",
            (WorkerPlan(Role.UNIFIED, cores, 0),),
            target=5.0,
            better="at least",
        ),
        Scenario(f"one worker on all cores, chunks of {CHUNK}", (WorkerPlan(Role.UNIFIED, cores, CHUNK),)),
        Scenario("prefill and decode worker on half the cores each", split, target=1.3, stretch=1.2),
    ]


def rows(run: Run) -> list[Row]:
    """ITL p99 / p50 of each scenario. That the first is bad is what makes the last worth having."""
    run.peers.close()
    found: list[Row] = []
    for number, scenario in enumerate(scenarios()):
        name = f"ITL p99 / p50 while prompts of {ARRIVAL_PROMPT_TOKENS} arrive: {scenario.name}"
        print(name, flush=True)
        limits: dict[str, Any] = {"target": scenario.target, "stretch": scenario.stretch, "better": scenario.better}
        fleet = BenchFleet(run.directory / f"pace-{number}", run.model, list(scenario.plans), KV_TOKENS)
        try:
            seconds = 12.0 if run.quick else SECONDS
            measured = asyncio.run(
                apply_load(fleet.router_url, partial(tokens_written, fleet), warm_up_s=WARM_UP_S, seconds=seconds)
            )
            seen = {**figures(measured), **handoffs(fleet, measured)}
        finally:
            fleet.close()
        found.append(row(name, seen, **limits))
    return found


def row(name: str, seen: dict[str, Any], **limits: Any) -> Row:
    p50, p99 = seen["itl p50 ms"], seen["itl p99 ms"]
    if not p50 or not p99:
        return missing(name, "no answer was being written", details=seen, **limits)
    note = (
        f"TTFT p50 {seen['ttft p50 ms'] or math.nan:.0f} ms, {seen['output tokens/s']:.0f} tok/s in all"
        + f", {seen['failures']} failed" * bool(seen["failures"])
    )
    return Row(
        name=name,
        unit="ms",
        value=p99,
        compared_with="its p50",
        reference=p50,
        ratio=p99 / p50,
        note=note,
        details=seen,
        **limits,
    )


def figures(measured: Measured) -> dict[str, Any]:
    return {
        "load": f"{STEADY_STREAMS} steady answers, a prompt of {ARRIVAL_PROMPT_TOKENS} every {ARRIVAL_EVERY_S:g} s",
        "itl p50 ms": milliseconds(quantile(measured.steady_itl, 0.5)),
        "itl p99 ms": milliseconds(quantile(measured.steady_itl, 0.99)),
        "ttft p50 ms": milliseconds(quantile(measured.ttft, 0.5)),
        "ttft p99 ms": milliseconds(quantile(measured.ttft, 0.99)),
        "tpot p50 ms": milliseconds(quantile(measured.tpot, 0.5)),
        "tpot p99 ms": milliseconds(quantile(measured.tpot, 0.99)),
        "output tokens/s": measured.output_tokens_per_s,
        "arrivals": len(measured.ttft),
        "failures": measured.failures,
    }


def handoffs(fleet: BenchFleet, measured: Measured) -> dict[str, Any]:
    """KV per token as it really travelled, and the sender's rate over its busy time. Empty without hand-offs."""
    if not measured.handoff_bytes:
        return {}
    prefill = next(worker_id for worker_id in fleet.statuses if worker_id.startswith(Role.PREFILL))
    text = fleet.metrics(prefill)
    busy = metric_sum(text, r"tandem_kv_transfer_time_seconds_sum")
    sent = metric_sum(text, r"tandem_kv_transfer_sent_bytes_total")
    return {
        "kv bytes per token": sum(measured.handoff_bytes) / sum(measured.prompt_tokens),
        "handoff GB/s": sent / busy / 1e9 if busy else None,
    }


def tokens_written(fleet: BenchFleet) -> float:
    """Answer tokens of all workers so far; a hand-off's first token is counted by the prefill worker."""
    return sum(metric_sum(fleet.metrics(worker_id), r"tandem_generation_tokens_total") for worker_id in fleet.statuses)


def metric_sum(text: str, name: str) -> float:
    """Sum over all label sets of one metric in Prometheus text."""
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


def quantile(values: list[float], q: float) -> float | None:
    """Nearest rank; None when there is nothing to read."""
    return sorted(values)[max(1, math.ceil(q * len(values))) - 1] if values else None


def milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
