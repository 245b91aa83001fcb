"""Launches Tandem's own engine: `python -m inference.worker`."""

from __future__ import annotations

import sys

from inference.agent.engines.command import Command, LaunchRequest
from inference.contracts.states import DeviceKind


def native_command(request: LaunchRequest) -> Command:
    """Command of a native worker.

    GPUs are named by UUID, which means the same to NVML and CUDA whatever the order of devices; a worker without a GPU
    sees none.
    """
    gpus = [device.device_id for device in request.spec.devices if device.kind == DeviceKind.GPU]
    return Command(
        argv=(
            *(sys.executable, "-m", "inference.worker"),
            *("--spec", str(request.spec_file)),
            *("--announce", str(request.announce_file)),
        ),
        env={
            "CUDA_VISIBLE_DEVICES": ",".join("GPU-" + gpu.removeprefix("gpu-") for gpu in gpus),
            "TANDEM_CLUSTER_SECRET_FILE": str(request.secret_file),
            "TANDEM_WORKER_HOST": request.hosts.bind,
            "TANDEM_WORKER_ADVERTISED_HOST": request.hosts.advertised,
        },
    )
