from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inference.agent import cpu_slots, gpus
from inference.agent import inventory as inventory_module
from inference.agent.config import DeviceSource, Settings
from inference.agent.cpu_slots import CpuSlots, slot_cores, usable_cores, usable_memory
from inference.agent.gpus import Gpus
from inference.agent.inventory import Inventory
from inference.contracts.states import DeviceKind


class FakeNvml:
    """The part of pynvml that is used. `cards`: uuid, and which figures fail."""

    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        pass

    def __init__(self, cards: list[tuple[str, set[str]]]) -> None:
        self.cards = cards
        self.is_lost = False

    def nvmlDeviceGetCount(self) -> int:
        if self.is_lost:
            raise self.NVMLError("driver is gone")
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return self.cards[handle][0].encode()

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "Test GPU"

    def _figure(self, handle: int, name: str, value: Any) -> Any:
        if name in self.cards[handle][1]:
            raise self.NVMLError("not supported")
        return value

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return self._figure(handle, "memory", SimpleNamespace(total=80, used=8))

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return self._figure(handle, "load", SimpleNamespace(gpu=50))

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return int(self._figure(handle, "power", 300_000))

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return int(self._figure(handle, "temperature", 61))


def test_a_gpu_is_named_by_its_uuid_and_told_in_plain_units() -> None:
    [gpu] = Gpus(FakeNvml([("GPU-aaaa", set())]), {}).read()
    assert gpu.device_id == "gpu-aaaa"
    assert gpu.kind is DeviceKind.GPU
    assert (gpu.memory_total, gpu.memory_used, gpu.utilization) == (80, 8, 0.5)
    assert (gpu.temperature_c, gpu.power_w) == (61.0, 300.0)


def test_a_figure_that_a_card_does_not_give_is_unknown_and_hides_no_other() -> None:
    [poor, rich] = Gpus(FakeNvml([("GPU-a", {"power", "memory"}), ("GPU-b", set())]), {}).read()
    assert (poor.power_w, poor.memory_total, poor.memory_used) == (None, None, None)
    assert poor.utilization == 0.5
    assert rich.power_w == 300.0


def test_a_driver_that_stops_answering_leaves_known_gpus_without_figures() -> None:
    nvml = FakeNvml([("GPU-a", set())])
    gpus = Gpus(nvml, {})
    gpus.read()
    nvml.is_lost = True
    [gpu] = gpus.read()
    assert gpu.device_id == "gpu-a"
    assert (gpu.memory_used, gpu.utilization) == (None, None)


@pytest.mark.parametrize(
    ("visible", "seen"),
    [(None, ["gpu-aa", "gpu-bb"]), ("1", ["gpu-bb"]), ("GPU-aa", ["gpu-aa"]), ("GPU-b", ["gpu-bb"]), ("", [])],
)
def test_gpus_hidden_from_cuda_are_not_offered(visible: str | None, seen: list[str]) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    gpus = Gpus(FakeNvml([("GPU-aa", set()), ("GPU-bb", set())]), environment)
    assert [gpu.device_id for gpu in gpus.read()] == seen


def test_a_machine_without_a_driver_has_no_gpu() -> None:
    class Broken:
        class NVMLError(Exception):
            pass

        def nvmlInit(self) -> None:
            raise self.NVMLError("no driver")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "pynvml", Broken())
        assert gpus.load_nvml() is None
        patch.setitem(__import__("sys").modules, "pynvml", None)
        assert gpus.load_nvml() is None, "nor has one without the library"


def test_slots_of_a_small_machine_share_its_cores_round_robin() -> None:
    assert slot_cores((0, 1), 4, None) == ((0,), (1,), (0,), (1,))
    assert slot_cores((0, 1, 2, 3, 4, 5, 6, 7), 4, None) == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert slot_cores((0, 1, 2, 3), 2, 3) == ((0, 1, 2), (0, 1, 3))
    assert slot_cores((5,), 3, 9) == ((5,), (5,), (5,))


def test_cores_follow_the_affinity_and_the_quota_of_the_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 1, 2, 7})
    assert usable_cores(tmp_path) == (1, 2, 3, 7)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert usable_cores(tmp_path) == (1, 2, 3, 7)
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert usable_cores(tmp_path) == (1, 2)


def test_the_quota_of_an_older_kind_of_control_group_counts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert usable_cores(tmp_path) == (0, 1, 2)
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("50000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cores(tmp_path) == (0,)


def test_memory_is_what_the_control_group_allows(tmp_path: Path) -> None:
    whole = usable_memory(tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    assert usable_memory(tmp_path) == whole
    (tmp_path / "memory.max").write_text("1000000\n")
    assert usable_memory(tmp_path) == 1_000_000


def test_each_slot_tells_its_cores_its_share_and_the_memory_of_its_worker() -> None:
    slots = CpuSlots(4, None).read({"cpu-1": os.getpid(), "cpu-2": 2**22 + 1})
    assert [slot.device_id for slot in slots] == ["cpu-0", "cpu-1", "cpu-2", "cpu-3"]
    assert all(slot.kind is DeviceKind.CPU and slot.cores for slot in slots)
    assert {slot.memory_total for slot in slots} == {usable_memory() // 4}
    assert slots[0].memory_used == 0
    assert slots[1].memory_used is not None
    assert slots[1].memory_used > 1_000_000
    assert slots[2].memory_used is None, "a process that can't be read is not known to use nothing"


class Readings:
    """Stands for `Gpus`."""

    def __init__(self, nvml: Any, environment: Mapping[str, str]) -> None:
        self._gpus = Gpus(FakeNvml([("GPU-a", set())]), {})

    def read(self) -> Any:
        return self._gpus.read()


def test_cpu_slots_are_offered_only_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_module, "load_nvml", lambda: None)
    assert len(Inventory(Settings(cpu_slots=5)).devices({})) == 5
    assert Inventory(Settings(devices=DeviceSource.GPU)).devices({}) == ()
    monkeypatch.setattr(inventory_module, "load_nvml", object)
    monkeypatch.setattr(inventory_module, "Gpus", Readings)
    assert [device.device_id for device in Inventory(Settings()).devices({})] == ["gpu-a"]
    forced = Inventory(Settings(devices=DeviceSource.CPU, cpu_slots=2)).devices({})
    assert [device.device_id for device in forced] == ["cpu-0", "cpu-1"]


def test_slots_are_at_least_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_slots, "usable_cores", lambda: (0, 1))
    assert len(CpuSlots(None, None).read({})) == 4
