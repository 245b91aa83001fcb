"""What the kernel is told, and what becomes of it where it can't be had. Its numbers: `test_backends`."""

from __future__ import annotations

import sys

import pytest
import torch

from inference.engine.attention import decode_kernel
from inference.engine.attention.decode_kernel import Answers, DecodeKernel


def test_answers_are_laid_out_as_runs() -> None:
    answers = Answers.of([0, 3], [[(16, 5)], [(40, 2), (8, 9)]])
    assert answers.rows.tolist() == [0, 3]
    assert answers.run_ends.tolist() == [1, 3]
    assert answers.run_firsts.tolist() == [16, 40, 8]
    assert answers.run_lengths.tolist() == [5, 2, 9]
    assert answers.tokens == 11


def test_a_kernel_fits_the_layers_it_was_made_for_only() -> None:
    kernel = DecodeKernel(8, 3, torch.float32)
    key = torch.zeros(1, 2, 5, 8)
    assert kernel.fits(torch.zeros(1, 6, 5, 8), key)
    assert not kernel.fits(torch.zeros(1, 4, 5, 8), key)
    assert not kernel.fits(torch.zeros(1, 6, 5, 16), key)
    assert not kernel.fits(torch.zeros(1, 6, 5, 8, dtype=torch.bfloat16), key)


def test_a_dtype_that_it_does_not_read_is_refused() -> None:
    with pytest.raises(RuntimeError, match="does not read"):
        DecodeKernel(8, 3, torch.float16)


def test_without_numba_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "inference.engine.attention.decode_kernel_source", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    decode_kernel._compile.cache_clear()
    with pytest.raises(RuntimeError, match="numba is not installed"):
        DecodeKernel(8, 5, torch.float32)


def test_without_gnu_openmp_it_runs_in_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_kernel, "_torch_threads", lambda: None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    kernel, arena = DecodeKernel(8, 1, torch.float32), torch.ones(1, 2, 6, 8)
    output = torch.zeros(1, 2, 8)
    kernel.begin(Answers.of([0], [[(1, 4)]]), arena).attend(torch.ones(1, 2, 1, 8), arena, arena, 1.0, output)
    assert torch.equal(output, torch.ones(1, 2, 8))
