"""How busy SMs and device memory were between two looks, by NVML's GPU performance monitoring (Hopper and later)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

#: NVML wants some time between two samples; figures of an interval this short say nothing anyway.
LEAST_INTERVAL_S = 0.5


@dataclass(frozen=True, slots=True)
class Use:
    """Shares 0..1 since the last look; None when not known."""

    sms: float | None = None
    memory_bandwidth: float | None = None


@dataclass(slots=True)
class _Samples:
    """Two samples of one device, the older first. at: monotonic seconds of the newer one, None before the first."""

    older: Any
    newer: Any
    at: float | None = None
    use: Use = Use()


class GpuMeter:
    """Keeps the last sample of each device, by a name of the caller's."""

    def __init__(self, nvml: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._nvml = nvml
        self._clock = clock
        self._samples: dict[str, _Samples | None] = {}

    def read(self, name: str, gpu: Any, instance: int | None = None) -> Use:
        """gpu: handle of the whole GPU. instance: of MIG, its GPU instance. A device without such counters is asked
        once."""
        if name not in self._samples:
            self._samples[name] = self._new(gpu)
        samples = self._samples[name]
        now = self._clock()
        if samples is None or (samples.at is not None and now - samples.at < LEAST_INTERVAL_S):
            return samples.use if samples is not None else Use()
        try:
            samples.older, samples.newer = samples.newer, samples.older
            self._take(gpu, instance, samples.newer)
            samples.use = self._between(samples) if samples.at is not None else Use()
            samples.at = now
        except self._nvml.NVMLError:
            samples.at, samples.use = None, Use()
        return samples.use

    def keep_only(self, names: Collection[str]) -> None:
        """Give back what is kept of devices that are gone."""
        for name in self._samples.keys() - set(names):
            samples = self._samples.pop(name)
            if samples is not None:
                self._nvml.nvmlGpmSampleFree(samples.older)
                self._nvml.nvmlGpmSampleFree(samples.newer)

    def _new(self, gpu: Any) -> _Samples | None:
        nvml = self._nvml
        try:
            if not nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
                return None
            return _Samples(nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc())
        except nvml.NVMLError:
            return None

    def _take(self, gpu: Any, instance: int | None, sample: Any) -> None:
        if instance is None:
            self._nvml.nvmlGpmSampleGet(gpu, sample)
        else:
            self._nvml.nvmlGpmMigSampleGet(gpu, instance, sample)

    def _between(self, samples: _Samples) -> Use:
        nvml = self._nvml
        wanted = nvml.c_nvmlGpmMetricsGet_t()
        wanted.version = nvml.NVML_GPM_METRICS_GET_VERSION
        wanted.numMetrics = 2
        wanted.sample1, wanted.sample2 = samples.older, samples.newer
        wanted.metrics[0].metricId = nvml.NVML_GPM_METRIC_SM_UTIL
        wanted.metrics[1].metricId = nvml.NVML_GPM_METRIC_DRAM_BW_UTIL
        nvml.nvmlGpmMetricsGet(wanted)
        sms, bandwidth = (
            metric.value / 100 if metric.nvmlReturn == nvml.NVML_SUCCESS else None for metric in wanted.metrics[:2]
        )
        return Use(sms, bandwidth)
