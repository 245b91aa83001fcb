"""What a node says of itself: the hello, and the complete report."""

from __future__ import annotations

import shutil
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path

from inference.agent.config import AGENT_VERSION
from inference.agent.control.software import engine_versions
from inference.agent.hardware.inventory import Inventory
from inference.agent.hosts import Hosts
from inference.contracts.reports import DeviceReport, LinkReport, NodeHello, NodeReport, WeightsReport, WorkerReport


class SelfReport:
    """data: the folder whose disk counts. clock: unix seconds of this machine, told and never compared with. hostname,
    engines: None for what this machine says."""

    def __init__(
        self,
        *,
        hosts: Hosts,
        inventory: Inventory,
        data: Path,
        clock: Callable[[], float] = time.time,
        hostname: str | None = None,
        engines: Mapping[str, str] | None = None,
    ) -> None:
        self._hosts = hosts
        self._inventory = inventory
        self._data = data
        self._clock = clock
        self._boot_id = uuid.uuid4().hex
        self._sequence = count(1)
        self._hostname = hostname or socket.gethostname()
        self._engines = dict(engine_versions() if engines is None else engines)

    def devices(self) -> Sequence[DeviceReport]:
        """This node's devices as they are now."""
        return self._inventory.devices({})

    def hello(self, *, node_id: str = "", name: str | None = None) -> NodeHello:
        inventory = self._inventory
        return NodeHello(
            node_id=node_id,
            name=name,
            hostname=self._hostname,
            address=self._hosts.advertised,
            agent_version=AGENT_VERSION,
            devices=inventory.devices({}),
            cpu_cores=inventory.cpu_cores,
            memory_total=inventory.memory_total,
            driver=inventory.driver,
            interfaces=inventory.interfaces,
            engines=self._engines,
        )

    def report(
        self,
        *,
        node_id: str,
        observed_generation: int,
        holders: Mapping[str, int],
        workers: Sequence[WorkerReport],
        weights: Sequence[WeightsReport],
        links: Sequence[LinkReport],
        refused_spec: str,
    ) -> NodeReport:
        """The next report of this start of the agent. holders: pid of the worker on each device in use."""
        inventory = self._inventory
        disk_total, disk_free = _disk(self._data)
        return NodeReport(
            node_id=node_id,
            boot_id=self._boot_id,
            sequence=next(self._sequence),
            observed_generation=observed_generation,
            hostname=self._hostname,
            address=self._hosts.advertised,
            agent_version=AGENT_VERSION,
            devices=inventory.devices(holders),
            workers=tuple(workers),
            cpu_cores=inventory.cpu_cores,
            memory_total=inventory.memory_total,
            memory_used=inventory.memory_used,
            clock=self._clock(),
            driver=inventory.driver,
            interfaces=inventory.interfaces,
            engines=self._engines,
            disk_free=disk_free,
            disk_total=disk_total,
            weights=tuple(weights),
            links=tuple(links),
            refused_spec=refused_spec,
        )


def _disk(folder: Path) -> tuple[int | None, int | None]:
    """Total and free bytes of the disk that holds `folder`; None when it does not say."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None, None
    return usage.total, usage.free
