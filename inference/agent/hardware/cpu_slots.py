"""Slices of a machine's processors and memory, offered like devices where there is no GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import psutil

from inference.contracts.reports import DeviceReport
from inference.contracts.states import DeviceKind

_CGROUP = Path("/sys/fs/cgroup")

#: A small machine still offers enough slots to run both stages and to resize.
LEAST_SLOTS = 4


def usable_cores(cgroup: Path = _CGROUP) -> tuple[int, ...]:
    """Processor cores this process may use: its affinity, cut to the control group's CPU quota (rounded up)."""
    cores = sorted(os.sched_getaffinity(0))
    quota = _cpu_quota(cgroup)
    return tuple(cores if quota is None else cores[: max(1, min(len(cores), quota))])


def usable_memory(cgroup: Path = _CGROUP) -> int:
    """Bytes of memory this process may use: the machine's, or the control group's limit where that is lower."""
    total = int(psutil.virtual_memory().total)
    limit = _number(cgroup / "memory.max") or _number(cgroup / "memory" / "memory.limit_in_bytes")
    return total if limit is None else min(total, limit)


def slot_cores(cores: tuple[int, ...], slots: int, per_slot: int | None) -> tuple[tuple[int, ...], ...]:
    """The cores of each slot, dealt round robin: slots share cores when there are more slots than cores.

    per_slot: cores of one slot, at most all; None shares them out evenly, at least one each.
    """
    width = min(len(cores), per_slot or max(1, len(cores) // slots))
    return tuple(
        tuple(sorted({cores[(slot * width + offset) % len(cores)] for offset in range(width)})) for slot in range(slots)
    )


class CpuSlots:
    """The CPU slots of this machine. Cores are fixed when it is made; use is measured between two reads."""

    def __init__(self, slots: int | None, cores_per_slot: int | None) -> None:
        cores = usable_cores()
        self._cores = slot_cores(cores, slots or max(LEAST_SLOTS, len(cores)), cores_per_slot)
        psutil.cpu_percent(percpu=True)

    def read(self, holders: Mapping[str, int]) -> tuple[DeviceReport, ...]:
        """holders: pid of the worker on each slot in use, whose memory is the slot's."""
        busy = psutil.cpu_percent(percpu=True)
        share = usable_memory() // len(self._cores)
        return tuple(
            DeviceReport(
                device_id=f"cpu-{slot}",
                kind=DeviceKind.CPU,
                index=slot,
                name=f"CPU slot {slot}",
                memory_total=share,
                memory_used=_resident(holders.get(f"cpu-{slot}")),
                utilization=_mean([busy[core] / 100 for core in cores if core < len(busy)]),
                cores=cores,
            )
            for slot, cores in enumerate(self._cores)
        )


def _resident(pid: int | None) -> int | None:
    """Resident bytes of a process and its descendants; 0 for no process, None when it can't be read."""
    if pid is None:
        return 0
    try:
        leader = psutil.Process(pid)
        return sum(int(process.memory_info().rss) for process in (leader, *leader.children(recursive=True)))
    except psutil.Error:
        return None


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _cpu_quota(cgroup: Path) -> int | None:
    """Whole cores' worth of CPU time the control group grants, rounded up; None for no limit."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        quota = str(_number(cgroup / "cpu" / "cpu.cfs_quota_us") or "max")
        period = str(_number(cgroup / "cpu" / "cpu.cfs_period_us") or 100_000)
    return None if quota == "max" else -(-int(quota) // int(period))


def _number(path: Path) -> int | None:
    """The positive number in a control group file; None when there is no file or no limit in it."""
    try:
        number = int(path.read_text())
    except (OSError, ValueError):
        return None
    return number if number > 0 else None
