"""The router beside vllm-router: printed, and written to build/bench/router.json.

python -m tests.bench.router [--rows cost,latency,picking,memory] [--requests N] [--memory-requests N] [--quick]

A run of all sections with the usual numbers of requests also rewrites its table in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import machine
from tests.bench.machine import ROOT
from tests.bench.peers.environments import VLLM_ROUTER, prepare
from tests.bench.peers.process import PeerFailed
from tests.bench.report import facts_line, replace_section, table
from tests.bench.router import cost, latency, memory, picking
from tests.bench.router.fronts import CHEAPEST, DEFAULT, OTHERS_CORE, Front, stub_workers, tandem, vllm_router
from tests.bench.rows import Row, missing

OUT = ROOT / "build" / "bench" / "router.json"
DOCUMENT, SECTION = ROOT / "docs" / "benchmarks.md", "make bench-router"
SECTIONS = ("cost", "latency", "picking", "memory")


@dataclass(frozen=True)
class Size:
    """How much is measured. rounds: turns of each router. requests: of one sample. seconds: of arrivals at each router.
    decisions: timed. memory_requests: over which memory is watched."""

    rounds: int = 5
    requests: int = 2000
    seconds: float = 20.0
    decisions: int = 20_000
    memory_requests: int = 100_000


QUICK = Size(rounds=1, requests=320, seconds=1.0, decisions=1000, memory_requests=1000)


def measure(names: list[str], size: Size) -> tuple[dict[str, Any], list[Row]]:
    """Facts and rows of these sections."""
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("two cores are needed: one for the router, one for everything else")
    facts = machine.facts()
    print(facts_line(facts) + "\n", flush=True)
    os.sched_setaffinity(0, {OTHERS_CORE})
    began, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as directory, stub_workers() as ports:
        if {"cost", "latency"} & set(names):
            rows += _beside(names, size, Path(directory), ports, facts)
        if "picking" in names:
            rows += picking.rows(size.decisions)
        if "memory" in names:
            print("memory: about three minutes", flush=True)
            with tandem(Path(directory) / "memory", ports, **memory.SETTINGS) as front:
                rows += memory.rows(front, size.memory_requests)
    facts |= {"load after": machine.load(), "seconds": round(time.monotonic() - began)}
    return facts, rows


def _beside(
    names: list[str], size: Size, directory: Path, ports: dict[str, list[int]], facts: dict[str, Any]
) -> list[Row]:
    with contextlib.ExitStack() as running:
        fronts = [running.enter_context(tandem(directory / "tandem", ports))]
        rows = []
        try:
            facts |= prepare(VLLM_ROUTER)
            fronts += running.enter_context(_peers(directory, ports))
        except (PeerFailed, RuntimeError) as error:
            rows.append(missing("beside vllm-router", str(error), target=1.0, better="at most"))
        costs = cost.measure(fronts, size.rounds, size.requests)
        if "cost" in names:
            rows += cost.rows(costs)
        if "latency" in names:
            rows += latency.rows(costs[:2], size.seconds, size.rounds)
        return rows


@contextlib.contextmanager
def _peers(directory: Path, ports: dict[str, list[int]]) -> Iterator[list[Front]]:
    with contextlib.ExitStack() as running:
        yield [running.enter_context(vllm_router(directory / policy, ports, policy)) for policy in (DEFAULT, CHEAPEST)]


def main() -> None:
    usual = Size()
    parser = argparse.ArgumentParser(prog="python -m tests.bench.router", description=__doc__)
    parser.add_argument("--rows", default=",".join(SECTIONS), help=f"sections: {', '.join(SECTIONS)}")
    parser.add_argument("--requests", type=int, default=usual.requests, help="of one sample of bursts")
    parser.add_argument("--memory-requests", type=int, default=usual.memory_requests, help="watched for memory")
    parser.add_argument("--quick", action="store_true", help="little of each; only shows that everything works")
    options = parser.parse_args()
    names = [name for name in options.rows.split(",") if name]
    if unknown := set(names) - set(SECTIONS):
        parser.error(f"no sections {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    size = QUICK if options.quick else Size(requests=options.requests, memory_requests=options.memory_requests)
    facts, rows = measure(names, size)
    judged = [row for row in rows if row.reached is not None]
    summary = f"{sum(row.reached is True for row in judged)} of {len(judged)} targets reached."
    report = f"{facts_line(facts)}\n\n{table(rows)}\n\n{summary}"
    print(report)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"facts": facts, "rows": [row.as_dict() for row in rows]}, indent=2) + "\n")
    print(f"written to {OUT.relative_to(ROOT)}")
    if set(names) == set(SECTIONS) and size == usual:
        replace_section(DOCUMENT, SECTION, report)
        print(f"and to {DOCUMENT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
