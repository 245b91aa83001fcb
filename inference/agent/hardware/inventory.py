"""What a node has: its devices, cores, memory and network interfaces."""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import time
from collections.abc import Mapping

import psutil

from inference.agent.config import DeviceSource, Settings
from inference.agent.hardware.cpu_slots import CpuSlots, usable_cores, usable_memory
from inference.agent.hardware.gpus import Gpus
from inference.agent.hardware.nvml import load_nvml
from inference.contracts.reports import DeviceReport

#: Seconds between two tries to reach a driver that was not there (it may be loaded after the agent at boot).
RETRY_NVML_S = 30.0


class Inventory:
    """May be read from any thread."""

    def __init__(self, settings: Settings) -> None:
        self._lock = threading.Lock()
        self._source = settings.devices
        self._slots = (
            None if settings.devices is DeviceSource.GPU else CpuSlots(settings.cpu_slots, settings.cpu_slot_cores)
        )
        self._gpus: Gpus | None = None
        self._next_try = 0.0

    def devices(self, holders: Mapping[str, int]) -> tuple[DeviceReport, ...]:
        """GPUs, or CPU slots on a machine where NVML shows none. holders: pid of the worker on each device in use."""
        with self._lock:
            if self._source is not DeviceSource.CPU:
                gpus = self._read_gpus()
                if gpus or self._slots is None:
                    return gpus
            return self._slots.read(holders) if self._slots is not None else ()

    @property
    def driver(self) -> str:
        """Version of the GPU driver; empty without one."""
        return self._gpus.driver if self._gpus is not None else ""

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Network interfaces that others may reach, as "name address"."""
        return tuple(
            f"{name} {address.address}"
            for name, addresses in sorted(psutil.net_if_addrs().items())
            for address in addresses
            if address.family in (socket.AF_INET, socket.AF_INET6) and not _stays_here(address.address)
        )

    @property
    def cpu_cores(self) -> int:
        return len(usable_cores())

    @property
    def memory_total(self) -> int:
        return usable_memory()

    @property
    def memory_used(self) -> int:
        """Bytes in use on the machine; no more than what this process may use of it."""
        machine = psutil.virtual_memory()
        return min(int(machine.total - machine.available), usable_memory())

    def _read_gpus(self) -> tuple[DeviceReport, ...]:
        if self._gpus is None and time.monotonic() >= self._next_try:
            self._next_try = time.monotonic() + RETRY_NVML_S
            nvml = load_nvml()
            self._gpus = Gpus(nvml, os.environ) if nvml is not None else None
        return self._gpus.read() if self._gpus is not None else ()


def _stays_here(address: str) -> bool:
    """Loopback, or IPv6 that is good on one cable only."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return parsed.is_loopback or parsed.is_link_local
