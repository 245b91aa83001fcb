"""The engine and the hand-off beside their peers and limits: printed, and written to build/bench/engine.json.

python -m tests.bench.engine [--rows decode,prefill,...] [--quick]

A run of all sections also rewrites its table in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.bench import machine
from tests.bench.engine import bounds, decode, exactness, pace, prefill, sampling
from tests.bench.engine.in_process import apart
from tests.bench.engine.run import Run
from tests.bench.machine import ROOT
from tests.bench.peers.pool import PeerPool
from tests.bench.report import facts_line, replace_section, table
from tests.bench.rows import Row, missing

MODEL = Path(os.environ.get("TANDEM_TEST_MODEL", ROOT / "build" / "models" / "SmolLM2-135M-Instruct"))
OUT = ROOT / "build" / "bench" / "engine.json"
DOCUMENT, SECTION = ROOT / "docs" / "benchmarks.md", "make bench-engine"

_HANDOFF_S = 300.0


def handoff_rows(run: Run) -> list[Row]:
    from tests.bench.handoff import measure

    print("handoff: about two minutes", flush=True)
    run.peers.close()
    return apart(measure, run.model, within_s=_HANDOFF_S)


#: In the order in which they are run: what needs the same peers follows each other.
SECTIONS: Mapping[str, Callable[[Run], list[Row]]] = {
    "decode": decode.rows,
    "prefill": prefill.rows,
    "bounds": bounds.rows,
    "sampling": sampling.rows,
    "pace": pace.rows,
    "handoff": handoff_rows,
    "exactness": exactness.rows,
}


def measure(names: list[str], *, quick: bool) -> tuple[dict[str, Any], list[Row]]:
    """Facts and rows of these sections."""
    facts = machine.facts()
    print(facts_line(facts) + "\n", flush=True)
    found: dict[str, list[Row]] = {}
    seconds: dict[str, float] = {}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as directory:
        logs = OUT.parent / "logs"
        logs.mkdir(exist_ok=True)
        peers = PeerPool(MODEL, logs)
        try:
            for name in names:
                began = time.monotonic()
                found[name] = _section(name, Run(MODEL, peers, Path(directory), quick))
                seconds[name] = round(time.monotonic() - began, 1)
                print("\n" + table(found[name]) + "\n", flush=True)
                write(facts, seconds, found)
        finally:
            peers.close()
    facts |= {**peers.versions, "load after": machine.load(), "seconds": round(sum(seconds.values()))}
    write(facts, seconds, found)
    return facts, [row for section in found.values() for row in section]


def write(facts: dict[str, Any], seconds: dict[str, float], found: dict[str, list[Row]]) -> None:
    """After each section too, so that a run that is stopped leaves what it has."""
    sections = {name: [row.as_dict() for row in rows] for name, rows in found.items()}
    OUT.write_text(json.dumps({"facts": facts, "seconds": seconds, "sections": sections}, indent=2) + "\n")


def _section(name: str, run: Run) -> list[Row]:
    """Its rows; what goes wrong in it is a row too, and the others are measured all the same."""
    try:
        return SECTIONS[name](run)
    except Exception as error:
        return [missing(f"{name}: the whole section", f"{type(error).__name__}: {error}", target=1.0)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.engine", description=__doc__)
    parser.add_argument("--rows", default=",".join(SECTIONS), help=f"sections: {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="one sample of each; only shows that everything works")
    options = parser.parse_args()
    names = [name for name in options.rows.split(",") if name]
    if unknown := set(names) - set(SECTIONS):
        parser.error(f"no sections {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    facts, rows = measure(names, quick=options.quick)
    judged = [row for row in rows if row.reached is not None]
    summary = f"{sum(row.reached is True for row in judged)} of {len(judged)} targets reached."
    report = f"{facts_line(facts)}\n\n{table(rows)}\n\n{summary}"
    print(report)
    print(f"written to {OUT.relative_to(ROOT)}")
    if set(names) == set(SECTIONS) and not options.quick:
        replace_section(DOCUMENT, SECTION, report)
        print(f"and to {DOCUMENT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
