"""Claims about what is known of accelerators."""

from __future__ import annotations

import pytest

from inference.contracts.states import Role
from inference.planning.devices import DEVICE_MODELS, device_model, unsuitability


@pytest.mark.parametrize(
    ("name", "tflops", "memory_gb"),
    [
        ("NVIDIA H100 80GB HBM3", 989, 80),
        ("NVIDIA H100 PCIe", 756, 80),
        ("NVIDIA H100 NVL", 835, 94),
        ("NVIDIA H200", 989, 141),
        ("NVIDIA GH200 480GB", 990, 96),
        ("NVIDIA H20", 148, 96),
        ("NVIDIA H20-3e", 148, 141),
        ("NVIDIA GB200", 2500, 186),
        ("NVIDIA B200", 2250, 180),
        ("NVIDIA A100-SXM4-40GB", 312, 40),
        ("NVIDIA A100-SXM4-80GB", 312, 80),
        ("NVIDIA A10G", 70, 24),
        ("NVIDIA L4", 121, 24),
        ("NVIDIA L40S", 362, 48),
        ("NVIDIA GeForce RTX 4090", 165.2, 24),
        ("Tesla V100-SXM2-16GB", 125, 16),
        ("Tesla T4", 65, 16),
    ],
)
def test_drivers_names_are_recognised(name: str, tflops: float, memory_gb: float) -> None:
    model = device_model(name)

    assert model is not None
    assert (model.tflops, model.memory_gb) == (tflops, memory_gb)


@pytest.mark.parametrize("name", ["", "4 cores", "NVIDIA X9000", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"])
def test_what_is_not_listed_is_unknown_and_so_is_a_part_of_a_card(name: str) -> None:
    assert device_model(name) is None
    assert unsuitability(name, Role.PREFILL) == unsuitability("NVIDIA A100-SXM4-80GB", Role.PREFILL)


def test_every_row_says_where_its_figures_are_from() -> None:
    assert all(model.source for model in DEVICE_MODELS)


def test_small_differences_do_not_count() -> None:
    assert unsuitability("NVIDIA A100-SXM4-80GB", Role.DECODE) == unsuitability("NVIDIA A100 80GB PCIe", Role.DECODE)


def test_decode_would_rather_have_bandwidth_and_memory_and_prefill_compute() -> None:
    def best(role: Role) -> str:
        return min(("NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA H20"), key=lambda name: unsuitability(name, role))

    assert (best(Role.PREFILL), best(Role.DECODE)) == ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
