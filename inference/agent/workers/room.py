"""Whether this machine has room for one more worker now: disk for what it writes, memory for its model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from inference.agent.hardware.cpu_slots import usable_memory
from inference.contracts.reports import DeviceReport
from inference.contracts.specs import WorkerSpec
from inference.contracts.states import DeviceKind


class NoRoom(RuntimeError):
    """A start would fail now and may work later; the text names what is needed and what is there."""


class Room:
    """folder: where workers write. disk_floor: bytes that must be free there. devices: this node's, as they are now."""

    def __init__(self, folder: Path, *, disk_floor: int, devices: Callable[[], Sequence[DeviceReport]]) -> None:
        self._folder = folder
        self._disk_floor = disk_floor
        self._devices = devices

    def check(self, spec: WorkerSpec) -> None:
        """What is not known is not held against a start.

        Raises:
            NoRoom: too little disk, or less memory free on the worker's devices than it needs at the very least.
        """
        disk = _disk_free(self._folder)
        if disk is not None and disk < self._disk_floor:
            floor = amount(self._disk_floor)
            raise NoRoom(f"{amount(disk)} of disk is free in {self._folder}; {floor} is the least to start a worker")
        need = spec.memory_bytes or weights_on_disk(spec.model_path)
        if need is None:
            return
        gpus = {device.device_id for device in spec.devices if device.kind == DeviceKind.GPU}
        free = free_on(gpus, self._devices()) if gpus else min(psutil.virtual_memory().available, usable_memory())
        if free is not None and free < need:
            where = f"device {', '.join(sorted(gpus))}" if gpus else "this machine"
            raise NoRoom(f"{amount(free)} of memory is free on {where}; the model needs {amount(need)} at least")


def _disk_free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def free_on(device_ids: set[str], devices: Sequence[DeviceReport]) -> int | None:
    """Bytes free on these devices together; None when one of them does not tell."""
    free = 0
    found = {device.device_id: device for device in devices}
    for device_id in device_ids:
        device = found.get(device_id)
        if device is None or device.memory_total is None or device.memory_used is None:
            return None
        free += device.memory_total - device.memory_used
    return free


def weights_on_disk(model_path: str) -> int | None:
    """Bytes of a local model's weights, the least that any start of it takes; None for one that is not here."""
    try:
        files = [path.stat().st_size for path in Path(model_path).expanduser().glob("*.safetensors")]
    except (OSError, ValueError, RuntimeError):  # names that no path can have
        return None
    return sum(files) or None


def amount(size: int) -> str:
    """Bytes in words, by powers of ten as disks and devices are sold."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
