"""The GPUs of a machine as NVML tells them; of a GPU that is divided by MIG, its instances instead.

A GPU is named by its UUID, which means the same to NVML and CUDA in any order of devices: "gpu-<uuid>", and
"mig-<uuid>" for a MIG instance.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog

from inference.agent.hardware.gpu_events import XidWatch
from inference.agent.hardware.gpu_faults import fault_of
from inference.agent.hardware.gpu_links import nvlink_peers, pci_of
from inference.agent.hardware.gpu_meter import GpuMeter, Use
from inference.agent.hardware.nvml import figure, text
from inference.contracts.reports import DeviceReport
from inference.contracts.states import DeviceKind

#: Links don't come and go; a card that lost one is found soon enough.
TOPOLOGY_S = 60.0

#: By NVML's error code, why a single GPU can't be used.
_LOST = {15: "fell off the bus", 16: "must be reset"}

log = structlog.get_logger()


class Gpus:
    """nvml: the binding. environment: CUDA_VISIBLE_DEVICES in it hides the GPUs it does not name, as it would from
    CUDA itself (a machine may be shared). clock: monotonic seconds."""

    def __init__(self, nvml: Any, environment: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self._nvml = nvml
        self._visible = environment.get("CUDA_VISIBLE_DEVICES")
        self._clock = clock
        self._xids = XidWatch(nvml)
        self._meter = GpuMeter(nvml, clock)
        self._known: dict[int, tuple[DeviceReport, ...]] = {}
        self._peers: dict[str, tuple[str, ...]] = {}
        self._next_topology = 0.0
        self.driver = text(figure(nvml, nvml.nvmlSystemGetDriverVersion) or "")

    def read(self) -> tuple[DeviceReport, ...]:
        """All GPUs that are offered. A figure that a card does not give is None. When NVML itself fails, the GPUs known
        before are told without figures: a silent driver does not make hardware vanish. A single card that can't be read
        any more is told as faulty."""
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            log.warning("NVML does not answer", error=str(error))
            return self._with_peers([_without_figures(device, device.fault) for device in self._offered()])
        self._xids.look()
        handles: dict[int, Any] = {}
        for index in range(count):
            self._read_one(index, handles)
        self._look_at_links(handles)
        self._meter.keep_only([device.device_id for known in self._known.values() for device in known])
        return self._with_peers(self._offered())

    def _read_one(self, index: int, handles: dict[int, Any]) -> None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            self._known[index] = self._devices(index, handle)
            handles[index] = handle
        except nvml.NVMLError as error:
            fault = _LOST.get(error.value, f"can't be read: {error}")
            if index not in self._known:
                log.warning("a GPU can't be named, so it is not offered", index=index, reason=fault)
            self._known[index] = tuple(_without_figures(device, fault) for device in self._known.get(index, ()))

    def _devices(self, index: int, handle: Any) -> tuple[DeviceReport, ...]:
        gpu = self._gpu(index, handle)
        instances = self._instances(gpu, handle)
        return (gpu,) if instances is None else instances

    def _gpu(self, index: int, handle: Any) -> DeviceReport:
        nvml = self._nvml
        uuid = text(nvml.nvmlDeviceGetUUID(handle))
        self._xids.watch(uuid, handle)
        memory = figure(nvml, partial(nvml.nvmlDeviceGetMemoryInfo, handle))
        load = figure(nvml, partial(nvml.nvmlDeviceGetUtilizationRates, handle))
        power = figure(nvml, partial(nvml.nvmlDeviceGetPowerUsage, handle))
        limit = figure(nvml, partial(nvml.nvmlDeviceGetEnforcedPowerLimit, handle))
        celsius = figure(nvml, partial(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU))
        ecc = figure(
            nvml,
            partial(
                nvml.nvmlDeviceGetTotalEccErrors,
                handle,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            ),
        )
        device_id = "gpu-" + uuid.removeprefix("GPU-")
        use = self._meter.read(device_id, handle)
        return DeviceReport(
            device_id=device_id,
            kind=DeviceKind.GPU,
            index=index,
            name=text(nvml.nvmlDeviceGetName(handle)),
            memory_total=None if memory is None else int(memory.total),
            memory_used=None if memory is None else int(memory.used),
            utilization=None if load is None else load.gpu / 100,
            memory_bandwidth_use=_bandwidth(use, load),
            sm_use=use.sms,
            temperature_c=None if celsius is None else float(celsius),
            power_w=None if power is None else power / 1000,
            power_limit_w=None if limit is None else limit / 1000,
            pci=pci_of(nvml, handle),
            pcie_gen=figure(nvml, partial(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle)),
            pcie_width=figure(nvml, partial(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle)),
            ecc_uncorrected=ecc,
            xid=self._xids.last(uuid),
            fault=fault_of(ecc_uncorrected=ecc, fatal_xid=self._xids.fatal(uuid)),
        )

    # -- MIG -------------------------------------------------------------------------------------

    def _instances(self, gpu: DeviceReport, handle: Any) -> tuple[DeviceReport, ...] | None:
        """The MIG instances of a GPU, which may be none yet; None for a GPU that is not divided."""
        nvml = self._nvml
        mode = figure(nvml, partial(nvml.nvmlDeviceGetMigMode, handle))
        if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return None
        places = figure(nvml, partial(nvml.nvmlDeviceGetMaxMigDeviceCount, handle)) or 0
        found = []
        for place in range(places):
            part = figure(nvml, partial(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place))
            if part is not None:
                found.append(self._instance(gpu, handle, part))
        return tuple(found)

    def _instance(self, gpu: DeviceReport, handle: Any, part: Any) -> DeviceReport:
        """What is true of the whole card (its link, its errors, its temperature) holds for each part; power and
        utilization of the card say nothing of a part."""
        nvml = self._nvml
        device_id = "mig-" + text(nvml.nvmlDeviceGetUUID(part)).removeprefix("MIG-")
        memory = figure(nvml, partial(nvml.nvmlDeviceGetMemoryInfo, part))
        number = figure(nvml, partial(nvml.nvmlDeviceGetGpuInstanceId, part))
        use = Use() if number is None else self._meter.read(device_id, handle, number)
        return msgspec.structs.replace(
            gpu,
            device_id=device_id,
            parent=gpu.device_id,
            name=text(nvml.nvmlDeviceGetName(part)),
            memory_total=None if memory is None else int(memory.total),
            memory_used=None if memory is None else int(memory.used),
            utilization=None,
            memory_bandwidth_use=use.memory_bandwidth,
            sm_use=use.sms,
            power_w=None,
            power_limit_w=None,
        )

    # -- the whole machine -----------------------------------------------------------------------

    def _look_at_links(self, handles: Mapping[int, Any]) -> None:
        if self._clock() < self._next_topology:
            return
        whole = {
            device.device_id: handles[index]
            for index, devices in self._known.items()
            for device in devices
            if index in handles and device.parent is None
        }
        try:
            self._peers = nvlink_peers(self._nvml, whole)
            self._next_topology = self._clock() + TOPOLOGY_S
        except self._nvml.NVMLError:
            return  # a card went away meanwhile; the next look tells

    def _with_peers(self, devices: Sequence[DeviceReport]) -> tuple[DeviceReport, ...]:
        """Each with those of its peers that are offered too."""
        offered = {device.device_id for device in devices}
        return tuple(
            msgspec.structs.replace(
                device, nvlink_peers=tuple(p for p in self._peers.get(device.device_id, ()) if p in offered)
            )
            for device in devices
        )

    def _offered(self) -> list[DeviceReport]:
        return [device for _, known in sorted(self._known.items()) for device in known if self._is_visible(device)]

    def _is_visible(self, device: DeviceReport) -> bool:
        """A MIG instance is visible when it or its GPU is named."""
        if self._visible is None:
            return True
        named = [name.strip() for name in self._visible.split(",") if name.strip()]
        if device.parent is not None and any(
            device.device_id.startswith("mig-" + name.removeprefix("MIG-")) for name in named if name.startswith("MIG-")
        ):
            return True
        uuid = (device.parent or device.device_id).removeprefix("gpu-")
        return any(
            name == str(device.index) or (not name.isdigit() and uuid.startswith(name.removeprefix("GPU-")))
            for name in named
        )


def _bandwidth(use: Use, load: Any) -> float | None:
    if use.memory_bandwidth is not None:
        return use.memory_bandwidth
    return None if load is None else float(load.memory / 100)


def _without_figures(device: DeviceReport, fault: str) -> DeviceReport:
    return msgspec.structs.replace(
        device,
        memory_used=None,
        utilization=None,
        memory_bandwidth_use=None,
        sm_use=None,
        temperature_c=None,
        power_w=None,
        fault=fault,
    )
