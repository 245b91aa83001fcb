"""A worker process sees the devices of its spec and no others."""

from __future__ import annotations

import os

import msgspec
import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.specs import DeviceAssignment, EngineSettings, WorkerSpec
from inference.contracts.states import Role
from inference.testing.fleet import stub_spec
from inference.worker.devices import claim_devices, compute_threads


def spec(*devices: DeviceAssignment, **fields: object) -> WorkerSpec:
    return msgspec.structs.replace(stub_spec(Role.DECODE, 0), devices=devices, **fields)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"CUDA_VISIBLE_DEVICES": "0,1,2,3"})


def test_gpus_are_named_by_uuid_in_the_order_of_the_spec() -> None:
    claim_devices(
        spec(
            DeviceAssignment(device_id="gpu-aa", kind="gpu", index=3),
            DeviceAssignment(device_id="gpu-bb", kind="gpu", index=0),
        )
    )
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-aa,GPU-bb"


def test_a_cpu_worker_is_pinned_to_its_cores_and_sees_no_gpu() -> None:
    before = os.sched_getaffinity(0)
    core = min(before)
    try:
        claim_devices(spec(DeviceAssignment(device_id="cpu-0", kind="cpu", index=0, cores=(core,))))
        assert os.sched_getaffinity(0) == {core}
        assert compute_threads(spec()) == 1
        assert compute_threads(spec(settings=EngineSettings(threads=3))) == 3
    finally:
        os.sched_setaffinity(0, before)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert os.environ["OMP_NUM_THREADS"] == "1"


def test_cores_that_the_machine_lacks_are_refused() -> None:
    with pytest.raises(TandemError, match="4096") as refused:
        claim_devices(spec(DeviceAssignment(device_id="cpu-9", kind="cpu", index=9, cores=(4096,))))
    assert (refused.value.code, refused.value.param) == (ErrorCode.INVALID_REQUEST, "devices")
