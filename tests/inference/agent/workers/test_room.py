"""A start that can't work for lack of disk or memory is put off, with both numbers, and made when there is room."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from inference.agent.workers import room
from inference.agent.workers.room import NoRoom, Room, amount, free_on, weights_on_disk
from inference.contracts.reports import DeviceReport
from inference.contracts.specs import DeviceAssignment, WorkerSpec
from inference.contracts.states import DeviceKind, WorkerPhase
from tests.inference.agent.node_under_test import NodeUnderTest, wait_for, worker

GB = 10**9


def gpu(number: int, used: int | None = 10 * GB) -> DeviceReport:
    return DeviceReport(
        device_id=f"gpu-{number}", kind=DeviceKind.GPU, index=number, name="H", memory_total=80 * GB, memory_used=used
    )


def on_gpus(*numbers: int, memory_bytes: int | None) -> WorkerSpec:
    devices = tuple(DeviceAssignment(device_id=f"gpu-{n}", kind="gpu", index=n) for n in numbers)
    return worker("w1", devices=devices, memory_bytes=memory_bytes)


def a_room(folder: Path, *devices: DeviceReport, disk_floor: int = 0) -> Room:
    return Room(folder, disk_floor=disk_floor, devices=lambda: devices)


def test_a_model_bigger_than_what_is_free_on_its_devices_is_refused_with_both_numbers(tmp_path: Path) -> None:
    space = a_room(tmp_path, gpu(0), gpu(1))
    space.check(on_gpus(0, 1, memory_bytes=140 * GB))
    with pytest.raises(NoRoom) as caught:
        space.check(on_gpus(0, 1, memory_bytes=141 * GB))
    assert str(caught.value) == ("140.0 GB of memory is free on device gpu-0, gpu-1; the model needs 141.0 GB at least")


def test_what_is_not_known_is_not_held_against_a_start(tmp_path: Path) -> None:
    a_room(tmp_path, gpu(0)).check(on_gpus(0, memory_bytes=None))
    a_room(tmp_path, gpu(0, used=None)).check(on_gpus(0, memory_bytes=900 * GB))
    a_room(tmp_path).check(on_gpus(0, memory_bytes=900 * GB))
    assert free_on({"gpu-0", "gpu-7"}, [gpu(0)]) is None


def test_a_cpu_worker_is_measured_against_the_memory_of_the_machine(tmp_path: Path) -> None:
    a_room(tmp_path).check(worker("w1", memory_bytes=1000))
    with pytest.raises(NoRoom, match=r"of memory is free on this machine; the model needs 1000000\.0 GB at least"):
        a_room(tmp_path).check(worker("w1", memory_bytes=10**15))


def test_the_weights_of_a_local_model_are_the_least_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for part in range(2):
        (model / f"model-{part}.safetensors").write_bytes(b"x" * 3000)
    assert weights_on_disk(str(model)) == 6000
    assert weights_on_disk("org/on-a-hub") is None
    assert weights_on_disk("\x00") is None
    assert weights_on_disk("~nobody-of-this-name/model") is None
    memory = namedtuple("memory", "available total")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory(5000, 10**10))
    with pytest.raises(NoRoom, match=r"5000 bytes of memory is free on this machine; the model needs 6000 bytes"):
        a_room(tmp_path).check(worker("w1", str(model)))


def test_too_little_disk_is_refused_with_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(NoRoom, match=r"of disk is free in .*; 1000000\.0 GB is the least"):
        a_room(tmp_path, disk_floor=10**15).check(worker("w1"))


def test_amounts_are_words() -> None:
    assert [amount(n) for n in (12, 2_500_000, 80 * GB)] == ["12 bytes", "2.5 MB", "80.0 GB"]


def test_a_start_without_room_is_put_off_ever_longer_never_given_up_and_made_when_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    free = [1000]
    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: usage(10**12, 0, free[0]))
    assert shutil.disk_usage(tmp_path).free == 1000
    with NodeUnderTest(tmp_path, max_attempts=2, disk_floor_bytes=500_000_000) as node:
        node.want(worker("w1"))
        waiting = node.wait("w1", WorkerPhase.BACKOFF)
        assert f"1000 bytes of disk is free in {tmp_path}; 500.0 MB is the least to start a worker" in waiting.reason
        assert waiting.next_start_s is not None
        assert waiting.attempts == 0, "nothing was started, so nothing failed"
        later = wait_for(lambda: (r := node.report("w1")) and "put off 4 times" in r.reason and r)
        assert later.phase is WorkerPhase.BACKOFF
        free[0] = 10**11
        assert node.wait("w1", WorkerPhase.READY).attempts == 1
