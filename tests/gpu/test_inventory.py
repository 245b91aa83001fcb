"""What NVML says of a real card, read as the agent reads it."""

from __future__ import annotations

import time

import torch

from inference.agent.hardware.gpu_meter import LEAST_INTERVAL_S
from inference.agent.hardware.gpus import Gpus
from inference.agent.hardware.nvml import load_nvml


def test_a_real_card_tells_what_the_console_shows() -> None:
    nvml = load_nvml()
    assert nvml is not None
    gpus = Gpus(nvml, {})
    gpus.read()
    held = torch.ones(1024, 1024, 256, device="cuda")
    time.sleep(LEAST_INTERVAL_S + 0.1)
    devices = gpus.read()
    assert devices
    assert gpus.driver
    gpu = devices[0]
    assert gpu.memory_total is not None
    assert gpu.memory_used is not None
    assert held.nbytes < gpu.memory_used <= gpu.memory_total
    assert gpu.pci
    assert gpu.fault == ""
    shares = (gpu.utilization, gpu.memory_bandwidth_use, gpu.sm_use)
    assert all(share is None or 0.0 <= share <= 1.0 for share in shares), shares
    assert gpu.power_w is None or gpu.power_limit_w is None or gpu.power_w < 2 * gpu.power_limit_w
