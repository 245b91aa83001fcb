"""Prints the figures of this machine and writes them to build/bench/first-slice.json.

python -m tests.bench [--seconds 60] [--only serving|engine]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import platform
import re
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from inference.contracts.states import Role
from tests.bench import engine
from tests.bench.fleet import BenchFleet, WorkerPlan
from tests.bench.load import (
    ARRIVAL_EVERY_S,
    ARRIVAL_PROMPT_TOKENS,
    STEADY_STREAMS,
    Measured,
    apply_load,
)

ROOT = Path(__file__).resolve().parents[2]
MODEL = Path(os.environ.get("TANDEM_TEST_MODEL", ROOT / "build" / "models" / "SmolLM2-135M-Instruct"))
OUT = ROOT / "build" / "bench" / "first-slice.json"
KV_TOKENS = 20_480
WARM_UP_S = 15.0


def scenarios() -> dict[str, list[WorkerPlan]]:
    """All cores in one unified worker against half for each stage."""
    cores = tuple(sorted(os.sched_getaffinity(0)))
    half = max(1, len(cores) // 2)
    return {
        "aggregated, whole prompts": [WorkerPlan(Role.UNIFIED, cores, 0)],
        "aggregated, chunks of 128": [WorkerPlan(Role.UNIFIED, cores, 128)],
        "disaggregated 1 + 1": [
            WorkerPlan(Role.PREFILL, cores[:half], 128),
            WorkerPlan(Role.DECODE, cores[half:] or cores[:half], 128),
        ],
    }


def quantile(values: list[float], q: float) -> float | None:
    """Nearest rank; None when there is nothing to read."""
    return sorted(values)[max(1, math.ceil(q * len(values))) - 1] if values else None


def serving(seconds: float) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as name:
        for number, (title, plans) in enumerate(scenarios().items()):
            print(f"measuring: {title} ({WARM_UP_S:.0f} s warm-up, {seconds:.0f} s)", flush=True)
            fleet = BenchFleet(Path(name) / str(number), MODEL, plans, KV_TOKENS)
            try:
                measured = asyncio.run(
                    apply_load(fleet.router_url, partial(tokens_written, fleet), warm_up_s=WARM_UP_S, seconds=seconds)
                )
                rows.append({"scenario": title, **serving_row(measured), **handoff_row(fleet, measured)})
            finally:
                fleet.close()
    return rows


def serving_row(measured: Measured) -> dict[str, Any]:
    return {
        "ttft_p50_ms": milliseconds(quantile(measured.ttft, 0.5)),
        "ttft_p99_ms": milliseconds(quantile(measured.ttft, 0.99)),
        "tpot_p50_ms": milliseconds(quantile(measured.tpot, 0.5)),
        "tpot_p99_ms": milliseconds(quantile(measured.tpot, 0.99)),
        "steady_itl_p50_ms": milliseconds(quantile(measured.steady_itl, 0.5)),
        "steady_itl_p99_ms": milliseconds(quantile(measured.steady_itl, 0.99)),
        "output_tokens_per_s": measured.output_tokens_per_s,
        "arrivals": len(measured.ttft),
        "failures": measured.failures,
    }


def handoff_row(fleet: BenchFleet, measured: Measured) -> dict[str, Any]:
    """KV per token as it really travelled, and the sender's rate over its busy time. Empty without hand-offs."""
    if not measured.handoff_bytes:
        return {}
    prefill = next(worker_id for worker_id in fleet.statuses if worker_id.startswith(Role.PREFILL))
    text = fleet.metrics(prefill)
    sent = metric_sum(text, r"tandem_kv_transfer_sent_bytes_total")
    busy = metric_sum(text, r"tandem_kv_transfer_time_seconds_sum")
    return {
        "kv_bytes_per_token": sum(measured.handoff_bytes) / sum(measured.prompt_tokens),
        "handoff_gb_per_s": sent / busy / 1e9 if busy else None,
    }


def tokens_written(fleet: BenchFleet) -> float:
    """Answer tokens of all workers so far; a hand-off's first token is counted by the prefill worker."""
    return sum(metric_sum(fleet.metrics(worker_id), r"tandem_generation_tokens_total") for worker_id in fleet.statuses)


def metric_sum(text: str, name: str) -> float:
    """Sum over all label sets of one metric in Prometheus text."""
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


def milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table; what a row lacks is shown as a dash."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(cell(row.get(column)) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: Any) -> str:
    if value is None:
        return "-"
    return (
        f"{value:.2f}"
        if isinstance(value, float) and value < 10
        else f"{value:.0f}"
        if isinstance(value, float)
        else str(value)
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="measured time of each serving scenario")
    parser.add_argument("--only", choices=["serving", "engine"])
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    result: dict[str, Any] = {
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cores": cores,
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
        },
        "model": "SmolLM2-135M-Instruct, float32",
    }
    if options.only != "engine":
        result["serving"] = {
            "load": f"{STEADY_STREAMS} steady answers; {ARRIVAL_PROMPT_TOKENS}-token prompts every {ARRIVAL_EVERY_S} s",
            "rows": serving(options.seconds),
        }
        print("\n" + table(result["serving"]["rows"]) + "\n")
    if options.only != "serving":
        print("measuring: engine against transformers generate", flush=True)
        result["engine"] = {"unit": "tokens per second", "rows": engine.measure(MODEL, cores)}
        print("\n" + table(result["engine"]["rows"]) + "\n")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
