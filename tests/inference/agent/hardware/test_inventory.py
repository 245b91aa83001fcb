from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from inference.agent.config import DeviceSource, Settings
from inference.agent.hardware import cpu_slots
from inference.agent.hardware import inventory as inventory_module
from inference.agent.hardware.cpu_slots import CpuSlots, slot_cores, usable_cores, usable_memory
from inference.agent.hardware.inventory import Inventory
from inference.contracts.states import DeviceKind
from inference.testing.fake_nvml import FakeGpu, FakeNvml


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


def test_cpu_slots_are_offered_only_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_module, "load_nvml", lambda: None)
    bare = Inventory(Settings(cpu_slots=5))
    assert len(bare.devices({})) == 5
    assert bare.driver == ""
    assert Inventory(Settings(devices=DeviceSource.GPU)).devices({}) == ()
    nvml = FakeNvml([FakeGpu("GPU-a")])
    nvml.nvmlInit()
    monkeypatch.setattr(inventory_module, "load_nvml", lambda: nvml)
    inventory = Inventory(Settings())
    assert [device.device_id for device in inventory.devices({})] == ["gpu-a"]
    assert inventory.driver == "580.95.05"
    forced = Inventory(Settings(devices=DeviceSource.CPU, cpu_slots=2)).devices({})
    assert [device.device_id for device in forced] == ["cpu-0", "cpu-1"]


def test_interfaces_that_nobody_else_reaches_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def address(family: int, text: str) -> SimpleNamespace:
        return SimpleNamespace(family=family, address=text)

    monkeypatch.setattr(
        psutil,
        "net_if_addrs",
        lambda: {
            "lo": [address(socket.AF_INET, "127.0.0.1"), address(socket.AF_INET6, "::1")],
            "eth0": [
                address(socket.AF_INET, "10.0.0.5"),
                address(socket.AF_INET6, "fe80::1%eth0"),
                address(socket.AF_INET6, "2001:db8::5"),
                address(psutil.AF_LINK, "aa:bb:cc:dd:ee:ff"),
            ],
        },
    )
    assert Inventory(Settings(devices=DeviceSource.CPU)).interfaces == ("eth0 10.0.0.5", "eth0 2001:db8::5")


def test_slots_are_at_least_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_slots, "usable_cores", lambda: (0, 1))
    assert len(CpuSlots(None, None).read({})) == 4
