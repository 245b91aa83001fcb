"""The GPUs of a machine as NVIDIA's management library (NVML) tells them. Library and driver may both be missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import structlog

from inference.contracts.reports import DeviceReport
from inference.contracts.states import DeviceKind

T = TypeVar("T")

log = structlog.get_logger()


def load_nvml() -> Any | None:
    """The initialised NVML binding; None without library or driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        log.info("no GPU is offered", reason=str(error))
        return None
    return pynvml


class Gpus:
    """nvml: the binding. environment: CUDA_VISIBLE_DEVICES in it hides the GPUs it does not name, as it would from
    CUDA itself (a machine may be shared)."""

    def __init__(self, nvml: Any, environment: Mapping[str, str]) -> None:
        self._nvml = nvml
        self._visible = environment.get("CUDA_VISIBLE_DEVICES")
        self._known: tuple[DeviceReport, ...] = ()

    def read(self) -> tuple[DeviceReport, ...]:
        """All GPUs. A figure that a card does not give is None; when NVML itself fails, the GPUs known before are told
        without figures: a silent driver does not make hardware vanish."""
        try:
            count = self._nvml.nvmlDeviceGetCount()
            devices = [self._device(index) for index in range(count)]
        except self._nvml.NVMLError as error:
            log.warning("NVML does not answer", error=str(error))
            return tuple(_without_figures(device) for device in self._known)
        self._known = tuple(device for device in devices if self._is_visible(device))
        return self._known

    def _device(self, index: int) -> DeviceReport:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = self._figure(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        load = self._figure(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        power = self._figure(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        celsius = self._figure(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        return DeviceReport(
            device_id="gpu-" + _text(nvml.nvmlDeviceGetUUID(handle)).removeprefix("GPU-"),
            kind=DeviceKind.GPU,
            index=index,
            name=_text(nvml.nvmlDeviceGetName(handle)),
            memory_total=None if memory is None else int(memory.total),
            memory_used=None if memory is None else int(memory.used),
            utilization=None if load is None else load.gpu / 100,
            temperature_c=None if celsius is None else float(celsius),
            power_w=None if power is None else power / 1000,
        )

    def _figure(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except self._nvml.NVMLError:
            return None

    def _is_visible(self, device: DeviceReport) -> bool:
        if self._visible is None:
            return True
        uuid = device.device_id.removeprefix("gpu-")
        named = [name.strip().removeprefix("GPU-") for name in self._visible.split(",") if name.strip()]
        return any(name == str(device.index) or (not name.isdigit() and uuid.startswith(name)) for name in named)


def _without_figures(device: DeviceReport) -> DeviceReport:
    return msgspec.structs.replace(device, memory_used=None, utilization=None, temperature_c=None, power_w=None)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
