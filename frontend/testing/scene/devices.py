"""CPU slots, GPUs and parts of one, idle, busy and broken."""

from __future__ import annotations

import random
from collections.abc import Mapping

from frontend.testing.scene.measures import GIB
from inference.contracts.states import DeviceKind
from inference.contracts.views.fleet import DeviceView

#: Node and device -> worker that has it.
Holders = Mapping[tuple[str, str], str]


def cpu_slots(holders: Holders) -> tuple[DeviceView, ...]:
    return tuple(
        DeviceView(
            device_id=f"cpu-{index}",
            kind=DeviceKind.CPU,
            index=index,
            name="AMD EPYC 7B13",
            memory_total=6 * GIB,
            memory_used=int((0.2 + 0.15 * (index < 2)) * 6 * GIB),
            utilization=random.random() * 0.7 if index < 2 else 0.0,
            temperature_c=None,
            power_w=None,
            cores=(2 * index, 2 * index + 1),
            worker_id=holders.get(("desk", f"cpu-{index}")),
        )
        for index in range(4)
    )


def gpus(holders: Holders) -> tuple[DeviceView, ...]:
    return tuple(
        DeviceView(
            device_id=f"gpu-{index}",
            kind=DeviceKind.GPU,
            index=index,
            name="NVIDIA L4",
            id=10 + index,
            labels=("fast",) if index == 0 else (),
            maintenance=index == 6,
            maintenance_note="Fan is loud" if index == 6 else "",
            reserved_for="qwen3-8b" if index == 4 else "",
            fault="It fell off the bus; the machine has to be restarted." if index == 7 else "",
            xid=79 if index == 7 else None,
            ecc_uncorrected=0 if index < 6 else None,
            nvlink_peers=(f"gpu-{index ^ 1}",) if index < 6 else (),
            pcie_gen=4,
            pcie_width=16,
            power_limit_w=72.0,
            memory_bandwidth_use=random.random() * 0.8 if index < 5 else None,
            sm_use=random.random() * 0.7 if index < 5 else None,
            memory_total=24 * GIB,
            memory_used=int((0.93 if index == 4 else 0.6) * 24 * GIB) if index < 5 else None,
            utilization=random.random() if index < 5 else None,
            temperature_c=58.0 + index,
            power_w=61.0 + 2 * index,
            cores=(),
            worker_id=holders.get(("rack-2-04", f"gpu-{index}")),
        )
        for index in range(8)
    )


def mig_parts() -> tuple[DeviceView, ...]:
    return tuple(
        DeviceView(
            id=30 + index,
            device_id=f"mig-{index}",
            kind=DeviceKind.GPU,
            index=index,
            name="NVIDIA H100 1g.10gb",
            parent="gpu-0",
            memory_total=10 * GIB,
            memory_used=0,
            utilization=None,
            temperature_c=41.0,
            power_w=None,
            cores=(),
            worker_id=None,
        )
        for index in range(3)
    )
