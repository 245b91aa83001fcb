"""Stands for the module `pynvml` on a machine without a GPU: the same functions, error classes, constants and structs.

Errors, constants and structs are those of the real binding; the functions answer from `FakeGpu`s, which a test changes
as it likes. A figure that is None is one that the card does not support: asking for it raises `NVMLError_NotSupported`.

    nvml = FakeNvml([FakeGpu("GPU-aaaa")])
    nvml.nvmlInit()
    nvml.gpus[0].ecc_uncorrected = 3
    nvml.strike(nvml.gpus[0], xid=79)
"""

from __future__ import annotations

import ctypes
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pynvml


@dataclass(eq=False)
class FakeMig:
    """One instance of a divided GPU. number: its GPU instance id."""

    uuid: str
    number: int
    profile: str = "1g.10gb"
    memory_total: int = 10_000_000_000
    memory_used: int = 0
    sm_use: float = 0.0
    dram_use: float = 0.0


@dataclass(eq=False)
class FakeGpu:
    """One card, healthy unless told otherwise; powers in milliwatts and shares in percent, as NVML gives them.

    migs: its instances when it is divided, by place; None in the list is an empty place. nvlinks: for each link, what
    kind of device is at its other end and that one's PCI bus id; None is an inactive link. gpm: whether it has the
    counters behind sm_use and dram_use. is_lost: it fell off the bus. needs_reset: it answers nothing before a reset.
    """

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    pci: str = "00000000:19:00.0"
    memory_total: int | None = 80_000_000_000
    memory_used: int | None = 0
    utilization: int | None = 0
    memory_utilization: int = 0
    power_mw: int | None = 100_000
    power_limit_mw: int | None = 700_000
    temperature_c: int | None = 40
    pcie_gen: int | None = 5
    pcie_width: int | None = 16
    ecc_uncorrected: int | None = 0
    gpm: bool = False
    sm_use: float = 0.0
    dram_use: float = 0.0
    tells_xids: bool = True
    nvlinks: list[tuple[int, str] | None] = field(default_factory=list)
    migs: list[FakeMig | None] | None = None
    is_lost: bool = False
    needs_reset: bool = False


class FakeNvml:
    """See the module. is_silent: the driver answers nothing at all."""

    def __init__(self, gpus: list[FakeGpu], *, driver: str = "580.95.05", installed: bool = True) -> None:
        self.gpus = gpus
        self.driver = driver
        self.is_silent = False
        self.samples_alive = 0
        self._installed = installed
        self._started = False
        self._handles: list[FakeGpu | FakeMig] = []
        self._events: deque[tuple[FakeGpu, int]] = deque()
        self._registered: set[FakeGpu] = set()
        self._samples: list[FakeGpu | FakeMig | None] = []

    def __getattr__(self, name: str) -> Any:
        """Constants, structs and errors of the real binding; never one of its functions."""
        if name.startswith("nvml") and not name.startswith("nvmlEventType"):
            raise AttributeError(f"{name} is not faked; write it into {__name__}")
        return getattr(pynvml, name)

    def strike(self, gpu: FakeGpu, *, xid: int) -> None:
        """An XID error of a card; told to whoever registered for it."""
        if gpu in self._registered:
            self._events.append((gpu, xid))

    # -- the library -----------------------------------------------------------------------------

    def nvmlInit(self) -> None:
        if not self._installed:
            _fail(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
        self._started = True

    def nvmlSystemGetDriverVersion(self) -> str:
        self._require_started()
        return self.driver

    def nvmlDeviceGetCount(self) -> int:
        self._require_started()
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        self._require_started()
        if not 0 <= index < len(self.gpus):
            _fail(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return self._handle(self.gpus[index])

    # -- one card --------------------------------------------------------------------------------

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        return self._device(handle).uuid

    def nvmlDeviceGetName(self, handle: Any) -> str:
        device = self._device(handle)
        if isinstance(device, FakeMig):
            return f"{self._parent(device).name} MIG {device.profile}"
        return device.name

    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: Any = None) -> Any:
        device = self._device(handle)
        total, used = _told(device.memory_total), _told(device.memory_used)
        return pynvml.c_nvmlMemory_t(total=total, free=total - used, used=used)

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:
        gpu = self._gpu(handle)
        return pynvml.c_nvmlUtilization_t(gpu=_told(gpu.utilization), memory=gpu.memory_utilization)

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int:
        return _told(self._gpu(handle).power_mw)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> int:
        return _told(self._gpu(handle).power_limit_mw)

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:
        return _told(self._gpu(handle).temperature_c)

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, errorType: int, counterType: int) -> int:
        errors = _told(self._gpu(handle).ecc_uncorrected)
        return errors if errorType == pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED else 0

    def nvmlDeviceGetPciInfo(self, handle: Any) -> Any:
        return _pci_info(self._gpu(handle).pci)

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: Any) -> int:
        return _told(self._gpu(handle).pcie_gen)

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: Any) -> int:
        return _told(self._gpu(handle).pcie_width)

    # -- NVLink ----------------------------------------------------------------------------------

    def nvmlDeviceGetNvLinkState(self, device: Any, link: int) -> int:
        links = self._gpu(device).nvlinks
        if not links:
            _fail(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if link >= len(links):
            _fail(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return int(links[link] is not None)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Any, link: int) -> int:
        return self._link(handle, link)[0]

    def nvmlDeviceGetNvLinkRemotePciInfo(self, device: Any, link: int) -> Any:
        return _pci_info(self._link(device, link)[1])

    # -- MIG -------------------------------------------------------------------------------------

    def nvmlDeviceGetMigMode(self, device: Any) -> list[int]:
        migs = self._gpu(device).migs
        mode = pynvml.NVML_DEVICE_MIG_DISABLE if migs is None else pynvml.NVML_DEVICE_MIG_ENABLE
        return [mode, mode]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: Any) -> int:
        return len(self._gpu(device).migs or ())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Any, index: int) -> Any:
        migs = self._gpu(device).migs or []
        mig = migs[index] if index < len(migs) else None
        if mig is None:
            _fail(pynvml.NVML_ERROR_NOT_FOUND)
        return self._handle(mig)

    def nvmlDeviceGetGpuInstanceId(self, device: Any) -> int:
        mig = self._device(device)
        if not isinstance(mig, FakeMig):
            _fail(pynvml.NVML_ERROR_NOT_FOUND)
        return mig.number

    # -- events ----------------------------------------------------------------------------------

    def nvmlEventSetCreate(self) -> Any:
        self._require_started()
        return ctypes.cast(1, pynvml.c_nvmlEventSet_t)

    def nvmlDeviceRegisterEvents(self, handle: Any, eventTypes: int, eventSet: Any) -> None:
        gpu = self._gpu(handle)
        if not gpu.tells_xids or not eventTypes & pynvml.nvmlEventTypeXidCriticalError:
            _fail(pynvml.NVML_ERROR_NOT_SUPPORTED)
        self._registered.add(gpu)

    def nvmlEventSetWait_v2(self, eventSet: Any, timeoutms: int) -> Any:
        """Never waits, whatever is asked for: a test that would wait here has a mistake."""
        if not self._events:
            _fail(pynvml.NVML_ERROR_TIMEOUT)
        gpu, xid = self._events.popleft()
        event = pynvml.c_nvmlEventData_t(eventType=pynvml.nvmlEventTypeXidCriticalError, eventData=xid)
        event.device = self._handle(gpu)
        return event

    # -- performance monitoring --------------------------------------------------------------------

    def nvmlGpmQueryDeviceSupport(self, device: Any) -> Any:
        return pynvml.c_nvmlGpmSupport_t(isSupportedDevice=int(self._gpu(device).gpm))

    def nvmlGpmSampleAlloc(self) -> Any:
        self._samples.append(None)
        self.samples_alive += 1
        return ctypes.cast(len(self._samples), pynvml.c_nvmlGpmSample_t)

    def nvmlGpmSampleFree(self, gpmSample: Any) -> None:
        self.samples_alive -= 1

    def nvmlGpmSampleGet(self, device: Any, gpmSample: Any) -> Any:
        self._samples[_number(gpmSample) - 1] = self._gpu(device)
        return gpmSample

    def nvmlGpmMigSampleGet(self, device: Any, gpuInstanceId: int, gpmSample: Any) -> Any:
        mig = next((m for m in self._gpu(device).migs or () if m is not None and m.number == gpuInstanceId), None)
        if mig is None:
            _fail(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        self._samples[_number(gpmSample) - 1] = mig
        return gpmSample

    def nvmlGpmMetricsGet(self, metricsGet: Any) -> Any:
        older, newer = (self._samples[_number(sample) - 1] for sample in (metricsGet.sample1, metricsGet.sample2))
        if metricsGet.version != pynvml.NVML_GPM_METRICS_GET_VERSION or newer is None or older is not newer:
            _fail(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        known = {
            pynvml.NVML_GPM_METRIC_SM_UTIL: newer.sm_use,
            pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: newer.dram_use,
        }
        for metric in metricsGet.metrics[: metricsGet.numMetrics]:
            metric.nvmlReturn = pynvml.NVML_SUCCESS if metric.metricId in known else pynvml.NVML_ERROR_NOT_SUPPORTED
            metric.value = known.get(metric.metricId, 0.0)
        return metricsGet

    # -- inside ----------------------------------------------------------------------------------

    def _require_started(self) -> None:
        if not self._started:
            _fail(pynvml.NVML_ERROR_UNINITIALIZED)
        if self.is_silent:
            _fail(pynvml.NVML_ERROR_UNKNOWN)

    def _handle(self, device: FakeGpu | FakeMig) -> Any:
        """An opaque pointer, as the real library gives; the same one each time."""
        if device not in self._handles:
            self._handles.append(device)
        return ctypes.cast(self._handles.index(device) + 1, pynvml.c_nvmlDevice_t)

    def _device(self, handle: Any) -> FakeGpu | FakeMig:
        self._require_started()
        device = self._handles[_number(handle) - 1]
        gpu = device if isinstance(device, FakeGpu) else self._parent(device)
        if gpu.is_lost:
            _fail(pynvml.NVML_ERROR_GPU_IS_LOST)
        if gpu.needs_reset:
            _fail(pynvml.NVML_ERROR_RESET_REQUIRED)
        return device

    def _gpu(self, handle: Any) -> FakeGpu:
        """Most figures are those of whole cards: a MIG instance does not support them."""
        device = self._device(handle)
        if isinstance(device, FakeMig):
            _fail(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return device

    def _parent(self, mig: FakeMig) -> FakeGpu:
        return next(gpu for gpu in self.gpus if mig in (gpu.migs or ()))

    def _link(self, handle: Any, link: int) -> tuple[int, str]:
        end = self._gpu(handle).nvlinks[link]
        if end is None:
            _fail(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return end


def _fail(code: int) -> NoReturn:
    raise pynvml.NVMLError(code)


def _told(value: int | None) -> int:
    if value is None:
        _fail(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return value


def _pci_info(bus_id: str) -> Any:
    return pynvml.nvmlPciInfo_t(busId=bus_id.encode())


def _number(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0
