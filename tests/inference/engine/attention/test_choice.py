from __future__ import annotations

import pytest
import torch

from inference.engine.attention import choice
from inference.engine.attention.choice import choose_attention
from inference.engine.attention.cpu import CpuAttention
from inference.engine.attention.extents import ExtentAttention
from inference.engine.attention.reference import ReferenceAttention
from inference.engine.attention.seam import AttentionBackend
from inference.engine.kv_cache import KVGeometry

GEOMETRY = KVGeometry(layers=4, kv_heads=2, head_size=16, windows=(None, 24))
CPU = torch.device("cpu")


def choose(dtype: torch.dtype = torch.float32, block_size: int = 16) -> AttentionBackend:
    return choose_attention(GEOMETRY, 4, dtype, CPU, block_size)


class Wrong(ReferenceAttention):
    """Forgets the scale."""

    def begin(self, cache, segments, slots):  # type: ignore[no-untyped-def]
        step = super().begin(cache, segments, slots)
        attend = step.attend
        step.attend = lambda layer, q, k, v, scale, window: attend(layer, q, k, v, 1.0, window)
        return step


class Broken(ReferenceAttention):
    def begin(self, cache, segments, slots):  # type: ignore[no-untyped-def]
        raise RuntimeError("no kernel image is available")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block_size", [1, 16, 64])
def test_a_cpu_gets_the_kernel_once_it_proved_itself(dtype: torch.dtype, block_size: int) -> None:
    chosen = choose(dtype, block_size)
    assert isinstance(chosen, CpuAttention)
    assert "a compiled kernel" in chosen.name


def test_a_dtype_without_a_kernel_is_attended_by_torch() -> None:
    chosen = choose(torch.float16)
    assert isinstance(chosen, CpuAttention | ExtentAttention)
    assert "kernel" not in chosen.name


@pytest.mark.parametrize("candidate", [Wrong(), Broken()])
def test_what_computes_something_else_or_fails_is_not_used(monkeypatch: pytest.MonkeyPatch, candidate) -> None:
    monkeypatch.setattr(choice, "_candidates", lambda *_: iter([candidate, ReferenceAttention()]))
    assert type(choose()) is ReferenceAttention


def test_torchs_operator_is_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_candidates", lambda *_: iter([Wrong(), Broken()]))
    assert isinstance(choose(), ExtentAttention)


def test_without_numba_and_onednn_prompts_and_answers_are_attended_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_kernel(*_: object) -> None:
        raise RuntimeError("numba is not installed")

    monkeypatch.setattr(choice, "DecodeKernel", no_kernel)
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    chosen = choose()
    assert chosen.name == "answers by torch's operator, prompts by torch's operator"
