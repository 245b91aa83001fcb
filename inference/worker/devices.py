"""Confines the process to the devices of its spec. Must run before torch is imported, which looks around only once."""

from __future__ import annotations

import os

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.specs import WorkerSpec
from inference.contracts.states import DeviceKind


def claim_devices(spec: WorkerSpec) -> None:
    """Pin to the spec's processor cores and show CUDA only its GPUs (none for a CPU worker).

    Raises:
        TandemError: INVALID_REQUEST when this machine has none of the cores.
    """
    cores = {core for device in spec.devices for core in device.cores}
    if cores:
        try:
            os.sched_setaffinity(0, cores)
        except OSError as error:
            raise TandemError(
                ErrorCode.INVALID_REQUEST, f"can't be pinned to cores {sorted(cores)}: {error.strerror}", "devices"
            ) from error
    os.environ["OMP_NUM_THREADS"] = str(compute_threads(spec))
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpu_uuids(spec))


def compute_threads(spec: WorkerSpec) -> int:
    """CPU threads for the model: as set, else one per core that the process may use."""
    return spec.settings.threads or len(os.sched_getaffinity(0))


def gpu_uuids(spec: WorkerSpec) -> list[str]:
    """CUDA's names of the spec's GPUs and MIG instances: by UUID, which means the same to NVML and CUDA in any order of
    devices."""
    return [_cuda_name(device.device_id) for device in spec.devices if device.kind == DeviceKind.GPU]


def _cuda_name(device_id: str) -> str:
    kind, _, uuid = device_id.partition("-")
    return f"{'MIG' if kind == 'mig' else 'GPU'}-{uuid}"
