"""What is publicly known of accelerators, and how well each suits a role. Used where more than one would do.

Peaks say which device is stronger, not how fast a model runs on it. A device that is not listed is unknown, which is
neither weak nor strong: it ranks like the reference (an A100 of 80 GB). So do MIG instances, which are parts of a card.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache

from inference.contracts.states import Role


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """pattern: of the name that the driver reports. tflops: dense BF16 (FP16 where there is no BF16), without
    sparsity. bandwidth_gb_s: of device memory. memory_gb: 10^9 bytes, as printed. source: where the figures are from.
    """

    pattern: str
    tflops: float
    bandwidth_gb_s: float
    memory_gb: float
    source: str


#: The first row that matches counts, so the narrower patterns come first.
DEVICE_MODELS = (
    DeviceModel(r"\bGB300\b", 2500, 8000, 288, "NVIDIA GB300 NVL72 data sheet, a 72nd of the rack"),
    DeviceModel(r"\bGB200\b", 2500, 8000, 186, "NVIDIA GB200 NVL72 data sheet, a 72nd of the rack"),
    DeviceModel(r"\bB300\b", 2250, 8000, 288, "NVIDIA HGX B300 data sheet, an eighth of the board"),
    DeviceModel(r"\bB200\b", 2250, 8000, 180, "NVIDIA DGX B200 data sheet, an eighth of the system"),
    DeviceModel(r"\bGH200\b.*\b144G", 990, 4900, 144, "NVIDIA GH200 Grace Hopper Superchip data sheet, HBM3e"),
    DeviceModel(r"\bGH200\b", 990, 4000, 96, "NVIDIA GH200 Grace Hopper Superchip data sheet, HBM3"),
    DeviceModel(r"\bH200 NVL\b", 835, 4800, 141, "NVIDIA H200 data sheet"),
    DeviceModel(r"\bH200\b", 989, 4800, 141, "NVIDIA H200 data sheet"),
    DeviceModel(r"\bH100 NVL\b", 835, 3900, 94, "NVIDIA H100 data sheet"),
    DeviceModel(r"\bH100 PCIe\b", 756, 2000, 80, "NVIDIA H100 data sheet, first edition"),
    DeviceModel(r"\bH[18]00\b", 989, 3350, 80, "NVIDIA H100 data sheet (H800: the same without its NVLink speed)"),
    DeviceModel(r"\bH20-3e\b", 148, 4800, 141, "server vendors' pages; NVIDIA publishes no data sheet of it"),
    DeviceModel(r"\bH20\b", 148, 4000, 96, "server vendors' pages; NVIDIA publishes no data sheet of it"),
    DeviceModel(r"\bA[18]00\b.*\b40GB", 312, 1555, 40, "NVIDIA A100 data sheet"),
    DeviceModel(r"\bA[18]00 80GB PCIe\b", 312, 1935, 80, "NVIDIA A100 data sheet"),
    DeviceModel(r"\bA[18]00\b", 312, 2039, 80, "NVIDIA A100 data sheet"),
    DeviceModel(r"\bL40S\b", 362, 864, 48, "NVIDIA L40S data sheet"),
    DeviceModel(r"\bL40\b", 181, 864, 48, "NVIDIA L40 data sheet"),
    DeviceModel(r"\bL4\b", 121, 300, 24, "NVIDIA L4 data sheet"),
    DeviceModel(r"\bA40\b", 149.7, 696, 48, "NVIDIA A40 data sheet"),
    DeviceModel(r"\bA30\b", 165, 933, 24, "NVIDIA A30 data sheet"),
    DeviceModel(r"\bA10\b", 125, 600, 24, "NVIDIA A10 data sheet"),
    DeviceModel(r"\bA10G\b", 70, 600, 24, "NVIDIA A10G data sheet"),
    DeviceModel(r"\bRTX 6000 Ada\b", 364, 960, 48, "NVIDIA RTX 6000 Ada Generation data sheet"),
    DeviceModel(r"\bRTX A6000\b", 154.8, 768, 48, "NVIDIA RTX A6000 data sheet"),
    DeviceModel(r"\bRTX 5090\b", 209.5, 1792, 32, "NVIDIA RTX Blackwell GPU architecture paper"),
    DeviceModel(r"\bRTX 4090\b", 165.2, 1008, 24, "NVIDIA Ada GPU architecture paper"),
    DeviceModel(r"\bRTX 3090\b", 71, 936, 24, "NVIDIA Ampere GA102 GPU architecture paper"),
    DeviceModel(r"\bV100\b.*\b16GB", 125, 900, 16, "NVIDIA V100 data sheet (FP16)"),
    DeviceModel(r"\bV100\b", 125, 900, 32, "NVIDIA V100 data sheet (FP16)"),
    DeviceModel(r"\bT4\b", 65, 320, 16, "NVIDIA T4 data sheet (FP16)"),
)

_REFERENCE = DeviceModel("", 312, 2039, 80, "NVIDIA A100 data sheet")


@cache
def device_model(name: str) -> DeviceModel | None:
    """The row of the device that its driver calls `name`; None when it is not known."""
    if re.search(r"\bMIG\b", name):
        return None
    return next((model for model in DEVICE_MODELS if re.search(model.pattern, name)), None)


@cache
def unsuitability(name: str, role: Role) -> tuple[int, int]:
    """Sorts devices for a role, the one to take first; equal for devices that are about as good.

    Prefill is bound by compute; decode by bandwidth, and by the memory that holds its KV. The second number leaves a
    device that the other role would rather have to that one. Unified workers do both, so either counts half.
    """
    model = device_model(name) or _REFERENCE
    compute = model.tflops / _REFERENCE.tflops
    memory = math.sqrt(model.bandwidth_gb_s / _REFERENCE.bandwidth_gb_s * model.memory_gb / _REFERENCE.memory_gb)
    match role:
        case Role.PREFILL:
            return -_grade(compute), _grade(memory)
        case Role.DECODE:
            return -_grade(memory), _grade(compute)
        case Role.UNIFIED:
            return -_grade(math.sqrt(compute * memory)), 0


def _grade(times: float) -> int:
    """How often a figure is the reference's, in steps of half an octave: less is not worth a longer way for the KV."""
    return round(2 * math.log2(times))
