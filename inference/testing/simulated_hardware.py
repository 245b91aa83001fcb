"""What a simulated node has: GPUs that are all alike, weights that are there at once, links that are all as fast."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from inference.contracts.reports import Address, DeviceReport, LinkReport, WeightsReport
from inference.contracts.specs import LinkSpec, NodeSpec
from inference.contracts.states import DeviceKind, FetchState

GPU_MEMORY = 80_000_000_000
_WEIGHTS_BYTES = 16_000_000_000
_BYTES_PER_S = 12.5e9
_LATENCY_S = 50e-6


class SimulatedInventory:
    """Stands for `Inventory`: GPUs that are all alike, and busy where a worker holds them. faults: by device id."""

    cpu_cores = 64
    memory_total = 1_000_000_000_000
    memory_used = 100_000_000_000
    driver = "simulated"
    interfaces: tuple[str, ...] = ()

    def __init__(self, devices: int) -> None:
        self.faults: dict[str, str] = {}
        self._devices = tuple(_gpu(index) for index in range(devices))

    def devices(self, holders: Mapping[str, int]) -> tuple[DeviceReport, ...]:
        return tuple(
            device
            if device.device_id not in holders and device.device_id not in self.faults
            else msgspec.structs.replace(
                device,
                memory_used=GPU_MEMORY * 9 // 10 if device.device_id in holders else 0,
                utilization=0.5 if device.device_id in holders else 0.0,
                fault=self.faults.get(device.device_id, ""),
            )
            for device in self._devices
        )


def _gpu(index: int) -> DeviceReport:
    return DeviceReport(
        device_id=f"gpu-{index}",
        kind=DeviceKind.GPU,
        index=index,
        name="NVIDIA H100 80GB HBM3",
        memory_total=GPU_MEMORY,
        memory_used=0,
        utilization=0.0,
        temperature_c=40.0,
        power_w=100.0,
        memory_bandwidth_use=0.0,
        power_limit_w=700.0,
        pcie_gen=5,
        pcie_width=16,
        ecc_uncorrected=0,
        sm_use=0.0,
    )


def weights_of(spec: NodeSpec | None) -> tuple[WeightsReport, ...]:
    """All that is wanted is here at once."""
    return tuple(
        WeightsReport(path=weights.path, revision=weights.revision, state=FetchState.PRESENT, size_bytes=_WEIGHTS_BYTES)
        for weights in (spec.weights if spec else ())
    )


def links_of(spec: NodeSpec | None, host: str) -> tuple[LinkReport, ...]:
    """Whoever listens is at `host`; whoever knows its peer has measured it."""
    return tuple(_link(link, host) for link in (spec.links if spec else ()))


def _link(link: LinkSpec, host: str) -> LinkReport:
    if link.listen:
        return LinkReport(measurement_id=link.measurement_id, address=Address(host=host, port=30_000))
    if link.peer_port is None:
        return LinkReport(measurement_id=link.measurement_id)
    return LinkReport(measurement_id=link.measurement_id, bytes_per_s=_BYTES_PER_S, latency_s=_LATENCY_S)
