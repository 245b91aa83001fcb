"""One measurement as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def table(result: dict[str, Any]) -> str:
    title = "{nodes} nodes, {devices} devices, {workers} workers, {database}".format_map(result)
    return "\n".join([f"| {title} | |", "|---|---|", *(f"| {name} | {value} |" for name, value in _figures(result))])


def _figures(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    lag, console = result["report_lag"], result["console"]
    yield "report, made until written: p50 / p99 / max", _ms(lag["p50_s"], lag["p99_s"], lag["max_s"])
    yield (
        "reports per second (interval of a node)",
        f"{result['reports_per_s']:.0f} ({result['report_interval_s']:g} s)",
    )
    yield "all nodes join", f"{result['joined_in_s']:.1f} s"
    yield "all workers, asked for until told to nodes", f"{result['deployed_in_s']:.1f} s"
    for row in result["resizes"]:
        what = f"resize of a pool, {row['resize']}: answered / told to nodes / done"
        yield what, _ms(row["answered_s"], row["sent_s"], row["done_s"])
    for row in result["pages"]:
        yield f"page of {row['page']}: p50 / p95", f"{_ms(row['p50_s'], row['p95_s'])} ({row['kib']:.0f} KiB)"
    yield "snapshot of the console", f"{console['snapshot_mib']:.1f} MiB after {console['snapshot_s']:.1f} s"
    yield "snapshots sent since", str(console["snapshots"] - 1)
    for row in console["events"]:
        yield f"console, {row['event']}", f"{row['per_s']:.1f}/s, {row['kib_per_s']:.0f} KiB/s"
    for row in result["processes"]:
        memory = " / ".join(f"{row[f'memory_{when}_mib']:.0f}" for when in ("begin", "end", "max"))
        yield (
            f"{row['process']}: memory begin / end / max; CPU",
            f"{memory} MiB; {row['cpu_share_of_a_core']:.0%} of a core",
        )


def _ms(*seconds: float | None) -> str:
    return " / ".join("-" if each is None else f"{each * 1000:.0f}" for each in seconds) + " ms"
