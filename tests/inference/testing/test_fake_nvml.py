from __future__ import annotations

import inspect

import pynvml
import pytest

from inference.testing.fake_nvml import FakeGpu, FakeNvml

FAKED = [name for name in vars(FakeNvml) if name.startswith("nvml")]


@pytest.mark.parametrize("name", FAKED)
def test_every_faked_function_has_the_name_and_parameters_of_the_real_one(name: str) -> None:
    if name == "nvmlInit":
        return  # the real one takes none either, but counts starts
    real = list(inspect.signature(getattr(pynvml, name)).parameters)
    assert list(inspect.signature(getattr(FakeNvml, name)).parameters)[1:] == real


def test_errors_are_those_of_the_real_binding() -> None:
    nvml = FakeNvml([FakeGpu("GPU-a", power_mw=None)])
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        nvml.nvmlDeviceGetCount()
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(pynvml.NVMLError_NotSupported) as refused:
        nvml.nvmlDeviceGetPowerUsage(handle)
    assert refused.value.value == pynvml.NVML_ERROR_NOT_SUPPORTED
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetHandleByIndex(1)
    nvml.gpus[0].is_lost = True
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetUUID(handle)


def test_what_is_not_faked_is_missing_rather_than_real() -> None:
    nvml = FakeNvml([])
    assert nvml.NVML_ERROR_GPU_IS_LOST == 15
    assert nvml.NVMLError is pynvml.NVMLError
    with pytest.raises(AttributeError, match="nvmlDeviceGetFanSpeed is not faked"):
        _ = nvml.nvmlDeviceGetFanSpeed
