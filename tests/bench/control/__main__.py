"""The control plane under a simulated fleet: figures of this machine, printed and written to build/bench/control.json.

python -m tests.bench.control [--seconds 180] [--nodes 1000] [--only postgres|sqlite]

Nodes run the real agents' message code and real supervisors on one event loop of this process, around workers that are
no processes; the load of each worker differs in each report. Measured from outside: when rows are in the database, when
a node has its spec, when an answer is whole.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from inference.process.tasks import end
from inference.testing.simulated_fleet import SimulatedFleet
from tests.bench.control import watching
from tests.bench.control.clients import Api, Console, Pages, resize
from tests.bench.control.fleet import MODEL, WatchedNode, enter_model_and_token, join
from tests.bench.control.stack import ROOT, ControlPlane, Servers, servers
from tests.bench.control.table import table
from tests.bench.control.watching import LagWatch, ProcessWatch

OUT = ROOT / "build" / "bench" / "control.json"
SETTLE_WITHIN_S = 240.0
DEVICES = 8
SMALL = 50
#: Workers of the pool that is resized, and by how many.
RESIZES = (50, -50, 50, -50)


@dataclass(frozen=True, slots=True)
class Fleet:
    """deployments: each of a prefill and a decode pool of `pool` workers."""

    database: str
    nodes: int
    deployments: int
    pool: int
    seconds: float

    @property
    def workers(self) -> int:
        return self.deployments * 2 * self.pool


def measure(fleet: Fleet) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tandem-bench-control-") as name, contextlib.ExitStack() as stack:
        running = stack.enter_context(servers(Path(name), postgres=fleet.database == "postgres"))
        os.environ.update(running.environment)
        stack.callback(_keep_logs, Path(name), fleet.database)
        plane = ControlPlane(running)
        stack.callback(plane.stop)
        return asyncio.run(_measure(fleet, running, plane))


async def _measure(fleet: Fleet, running: Servers, plane: ControlPlane) -> dict[str, Any]:
    token, cookie, nodes, join_s = await asyncio.to_thread(_enter, fleet)
    _say(f"{fleet.nodes} nodes joined in {join_s:.1f} s")
    postgres = running.postgres
    connect = (
        partial(watching.sequences_in_postgres, postgres.url)
        if postgres
        else partial(watching.sequences_in_sqlite, running.directory / "tandem.sqlite3")
    )
    lag = LagWatch(nodes, connect())
    read = connect()
    plane.start()
    async with SimulatedFleet(nodes, running.valkey.url) as simulated, Api(running.url, token) as api:
        lag.start()
        heard_s = await _until_heard(read)
        _say(f"all were heard within {heard_s:.1f} s")
        deployed_s = await _deploy(fleet, api, nodes)
        _say(f"{fleet.workers} workers told to their nodes in {deployed_s:.1f} s")
        ready_s = await _until_ready(api, fleet.workers)
        _say(f"all ready {ready_s:.1f} s later")
        console, pages = Console(running.url, cookie), Pages(api)
        jobs = [asyncio.create_task(job) for job in (console.run(), pages.run())]
        await asyncio.sleep(20)
        _say(f"measuring for {fleet.seconds:.0f} s")
        lag.clear()
        pages.took.clear()
        console.clear()
        use = ProcessWatch(lambda: plane.processes)
        use.start()
        sent_before, began = simulated.reports_sent, time.monotonic()
        resizes = await _resizes(fleet, api, nodes)
        await asyncio.sleep(max(0.0, fleet.seconds - (time.monotonic() - began)))
        seconds = time.monotonic() - began
        for job in jobs:
            with contextlib.suppress(asyncio.InvalidStateError):
                if error := job.exception():
                    raise error
        use.end()
        result = {
            "database": fleet.database,
            "nodes": fleet.nodes,
            "devices": fleet.nodes * DEVICES,
            "workers": fleet.workers,
            "measured_s": seconds,
            "joined_in_s": join_s,
            "deployed_in_s": deployed_s,
            "report_interval_s": nodes[0].report_interval_s,
            "reports_per_s": (simulated.reports_sent - sent_before) / seconds,
            "reports_held_back": simulated.reports_held,
            "report_lag": _quantiles(lag.lags),
            "report_lag_oldest_waiting_s": lag.oldest_waiting_s,
            "resizes": resizes,
            "pages": [
                {"page": page, **_quantiles(took), "kib": pages.bytes[page] / 1024} for page, took in pages.took.items()
            ],
            "console": {
                "snapshot_mib": console.snapshots[0][0] / 2**20,
                "snapshot_s": console.snapshots[0][1],
                "snapshots": len(console.snapshots),
                "longest_pause_between_ticks_s": max(console.tick_gaps, default=None),
                "events": console.rows(),
            },
            "processes": use.rows(),
        }
        await end(jobs)
    lag.end()
    return result


def _enter(fleet: Fleet) -> tuple[str, str, list[WatchedNode], float]:
    """Management token, session cookie, nodes, and how long these took to join."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.test import Client

    from controlplane.access.users import user_create
    from inference.contracts.states import UserRole

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    call_command("migrate", verbosity=0, interactive=False)
    token = enter_model_and_token()
    began = time.monotonic()
    nodes = join(fleet.nodes, DEVICES)
    took = time.monotonic() - began
    client = Client()
    client.force_login(user_create(username="ada", password="bench ada lovelace", role=UserRole.ADMIN))
    return token, f"sessionid={client.cookies['sessionid'].value}", nodes, took


async def _until_heard(read: Callable[[], Mapping[str, int]]) -> float:
    began = time.monotonic()
    while not all((await asyncio.to_thread(read)).values()):
        if time.monotonic() - began > SETTLE_WITHIN_S:
            raise RuntimeError("some nodes were never heard")
        await asyncio.sleep(0.2)
    return time.monotonic() - began


async def _deploy(fleet: Fleet, api: Api, nodes: Sequence[WatchedNode]) -> float:
    """Deployments start small, as a pool's limit is at first, and their pools are then made as large as they shall be.
    Seconds until the last node was told, without the wait for the first workers."""
    first = min(fleet.pool, SMALL)
    began = time.monotonic()
    for number in range(fleet.deployments):
        body = {"name": f"bench-{number}", "model": MODEL, "prefill": first, "decode": first}
        await api.send("POST", "/api/v1/deployments", body)
    took = await _until_told(nodes, fleet.deployments * 2 * first, began)
    if first < fleet.pool:
        await _until_ready(api, fleet.deployments * 2 * first)
        began = time.monotonic()
        for pool in await _pools(api):
            larger = {"generation": pool["generation"], "max_replicas": 2 * fleet.pool, "replicas": fleet.pool}
            await api.send("PATCH", f"/api/v1/pools/{pool['id']}?on_conflict=queue", larger)
        took += await _until_told(nodes, fleet.workers, began)
    return took


async def _until_told(nodes: Sequence[WatchedNode], workers: int, began: float) -> float:
    while (told := sum(len(node.wanted) for node in nodes)) < workers:
        if time.monotonic() - began > SETTLE_WITHIN_S:
            raise RuntimeError(f"only {told} of {workers} workers were told to nodes")
        await asyncio.sleep(0.05)
    return max(node.spec_at for node in nodes) - began


async def _pools(api: Api) -> list[dict[str, Any]]:
    deployments, _ = await api.get("/api/v1/deployments")
    return [pool for deployment in deployments["items"] for pool in deployment["pools"]]


async def _until_ready(api: Api, workers: int) -> float:
    """And no operation is under way any more."""
    began, ready = time.monotonic(), 0
    while time.monotonic() - began < SETTLE_WITHIN_S:
        ready = sum(pool["ready"] for pool in await _pools(api))
        running, _ = await api.get("/api/v1/operations?state=running&limit=1")
        if ready == workers and not running["items"]:
            return time.monotonic() - began
        await asyncio.sleep(1.0)
    raise RuntimeError(f"only {ready} of {workers} workers were ready after {SETTLE_WITHIN_S} s")


async def _resizes(fleet: Fleet, api: Api, nodes: Sequence[WatchedNode]) -> list[dict[str, Any]]:
    """The decode pool of the first deployment, up and down again."""
    pool = next(pool for pool in await _pools(api) if pool["role"] == "decode")
    rows, size = [], fleet.pool
    for change in RESIZES:
        size += change if fleet.pool >= 2 * abs(change) else (change > 0) - (change < 0)
        rows.append(await resize(api, nodes, pool, size))
        _say(f"resize: {rows[-1]}")
        await asyncio.sleep(4)
    return rows


def _quantiles(values: Sequence[float]) -> dict[str, Any]:
    """Nearest rank, in seconds."""
    ordered = sorted(values)

    def at(q: float) -> float | None:
        return ordered[max(1, math.ceil(q * len(ordered))) - 1] if ordered else None

    return {"count": len(ordered), "p50_s": at(0.5), "p95_s": at(0.95), "p99_s": at(0.99), "max_s": at(1.0)}


def _keep_logs(folder: Path, database: str) -> None:
    """What the processes wrote, beside the figures."""
    kept = OUT.parent / f"control-{database}"
    kept.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        (kept / log.name).write_bytes(log.read_bytes())


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.control", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="measured time on PostgreSQL; a third on SQLite")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--only", choices=["postgres", "sqlite"])
    options = parser.parse_args()
    # However it ends, it leaves no servers behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    fleets = {
        "postgres": Fleet("postgres", options.nodes, 5, options.nodes // 5, options.seconds),
        "sqlite": Fleet("sqlite", 20, 1, 20, options.seconds / 3),
    }
    if options.only is None:
        # Settings are read once a process: each database gets one of its own.
        raise SystemExit(_both(options.seconds, options.nodes))
    result = measure(fleets[options.only])
    print("\n" + table(result) + "\n")
    _write(options.only, result)


def _both(seconds: float, nodes: int) -> int:
    OUT.unlink(missing_ok=True)
    for only in ("postgres", "sqlite"):
        argv = [sys.executable, "-m", "tests.bench.control", "--only", only]
        done = subprocess.run([*argv, "--seconds", str(seconds), "--nodes", str(nodes)], check=False, cwd=ROOT)
        if done.returncode:
            return done.returncode
    return 0


def _write(database: str, result: dict[str, Any]) -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(OUT.read_text()) if OUT.exists() else {}
    known["measured_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    known["machine"] = {
        "cores": len(os.sched_getaffinity(0)),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
    }
    known[database] = result
    OUT.write_text(json.dumps(known, indent=2) + "\n")
    print(f"written to {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
