"""What is measured beside the clients: when reports are written, and what the processes use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.bench.control.fleet import WatchedNode

#: Pause between two looks at the database, which is how exact a lag is known: always told too long, by half of it.
LOOK_S = 0.1
MEMORY_S = 2.0
MIB = 2**20


class LagWatch(threading.Thread):
    """Asks the database which reports it holds, from outside of the control plane. lags: seconds from made to written,
    of reports made since `clear`. lag of a report that a newer one has overtaken ends when that one is written."""

    def __init__(self, nodes: Sequence[WatchedNode], sequences: Callable[[], Mapping[str, int]]) -> None:
        super().__init__(daemon=True)
        self._nodes = {node.node_id: node.made.waiting for node in nodes}
        self._sequences = sequences
        self._ending = threading.Event()
        self._since = 0.0
        self.lags: list[float] = []

    def clear(self) -> None:
        self._since, self.lags = time.time(), []

    def run(self) -> None:
        while not self._ending.wait(LOOK_S):
            written = self._sequences()
            now = time.time()
            for node_id, sequence in written.items():
                waiting = self._nodes[node_id]
                while waiting and waiting[0][0] <= sequence:
                    _, made = waiting.popleft()
                    if made >= self._since:
                        self.lags.append(now - made)

    @property
    def oldest_waiting_s(self) -> float:
        """How long the report waits that has waited longest."""
        now = time.time()
        return max((now - waiting[0][1] for waiting in self._nodes.values() if waiting), default=0.0)

    def end(self) -> None:
        self._ending.set()
        self.join()


def sequences_in_postgres(url: str) -> Callable[[], Mapping[str, int]]:
    import psycopg

    connection = psycopg.connect(url, autocommit=True)

    def read() -> Mapping[str, int]:
        rows = connection.execute("SELECT id::text, sequence FROM fleet_node", prepare=True)
        return dict(rows.fetchall())

    return read


def sequences_in_sqlite(path: Path) -> Callable[[], Mapping[str, int]]:
    import sqlite3
    from uuid import UUID

    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False, isolation_level=None)

    def read() -> Mapping[str, int]:
        rows = connection.execute("SELECT id, sequence FROM fleet_node").fetchall()
        return {str(UUID(raw)): sequence for raw, sequence in rows}

    return read


@dataclass
class Use:
    """Of one process with its children. memory: MiB over time, shared pages counted once where that can be known."""

    memory: list[float] = field(default_factory=list)
    cpu_s: float = 0.0


class ProcessWatch(threading.Thread):
    """Memory and processor time of the control plane's processes, every two seconds."""

    def __init__(self, processes: Callable[[], Mapping[str, Sequence[psutil.Process]]]) -> None:
        super().__init__(daemon=True)
        self._processes = processes
        self._ending = threading.Event()
        self._began = time.monotonic()
        self._cpu_before: dict[str, float] = {}
        self.use: dict[str, Use] = {}

    def run(self) -> None:
        self._look(first=True)
        while not self._ending.wait(MEMORY_S):
            self._look()
        self._look()

    def rows(self) -> list[dict[str, Any]]:
        seconds = time.monotonic() - self._began
        return [
            {
                "process": name,
                "memory_begin_mib": use.memory[0],
                "memory_end_mib": use.memory[-1],
                "memory_max_mib": max(use.memory),
                "growth_second_half_mib_per_min": _slope(use.memory[len(use.memory) // 2 :]),
                "cpu_share_of_a_core": use.cpu_s / seconds,
            }
            for name, use in self.use.items()
            if use.memory
        ]

    def end(self) -> None:
        self._ending.set()
        self.join()

    def _look(self, *, first: bool = False) -> None:
        for name, family in self._processes().items():
            use = self.use.setdefault(name, Use())
            memory = cpu = 0.0
            for process in family:
                try:
                    # Pages that a server shares with its children would be counted once for each of them.
                    memory += process.memory_full_info().pss if len(family) > 1 else process.memory_info().rss
                    times = process.cpu_times()
                except psutil.Error:
                    continue
                cpu += times.user + times.system
            use.memory.append(memory / MIB)
            if first:
                self._cpu_before[name] = cpu
            use.cpu_s = cpu - self._cpu_before.get(name, cpu)


def _slope(values: Sequence[float]) -> float | None:
    """MiB per minute, by least squares."""
    count = len(values)
    if count < 3:
        return None
    mean_x, mean_y = (count - 1) / 2, sum(values) / count
    above = sum((x - mean_x) * (y - mean_y) for x, y in enumerate(values))
    below = sum((x - mean_x) ** 2 for x in range(count))
    return above / below * 60 / MEMORY_S
