"""Attention of answers in one pass over their KV: a kernel compiled for processor, head size and dtype.

Each answer has one query per head in a step and reads all of its KV, so memory sets the pace. torch has no operator for
many requests of different lengths on a CPU, and one call for each request costs more than the reading. The kernel takes
all answers of a layer in one call, and keys and values where they lie in the arena.

It runs on torch's own threads (GNU OpenMP's): a second pool would fight with the first for the cores.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

DTYPES = (torch.float32, torch.bfloat16)

#: Tokens of a step's longest answer are rounded up to this, so that scratch memory is not made anew in each step.
_SCRATCH_STEP = 1024

_LOG2_E = math.log2(math.e)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Whose attention is computed. rows [answers]: their rows in the step. The KV that answer `i` sees lies in runs
    [run_ends[i - 1], run_ends[i]), each from slot `run_firsts` on, `run_lengths` slots long. tokens: of the longest."""

    rows: np.ndarray
    run_ends: np.ndarray
    run_firsts: np.ndarray
    run_lengths: np.ndarray
    tokens: int

    @classmethod
    def of(cls, rows: list[int], spans: list[list[tuple[int, int]]]) -> Answers:
        """spans: for each answer, (first slot, length) of the runs that it sees."""
        runs = [run for answer in spans for run in answer]
        return cls(
            rows=np.array(rows, np.int64),
            run_ends=np.cumsum([len(answer) for answer in spans], dtype=np.int64),
            run_firsts=np.array([first for first, _ in runs], np.int64),
            run_lengths=np.array([length for _, length in runs], np.int64),
            tokens=max(sum(length for _, length in answer) for answer in spans),
        )


class DecodeKernel:
    """For one model: `group` query heads share a KV head of `head_size`. Used by one thread at a time.

    Raises:
        RuntimeError: it can't be compiled here, with the reason.
    """

    def __init__(self, head_size: int, group: int, dtype: torch.dtype) -> None:
        self._function, self._layout = _compile(head_size, group, dtype)
        self._group, self._head_size, self._dtype = group, head_size, dtype
        self._parallel = _torch_threads()
        self._scratch = torch.empty(0)

    def fits(self, query: torch.Tensor, key: torch.Tensor) -> bool:
        """Whether the kernel was made for such a layer."""
        return (query.shape[3], query.shape[1], query.dtype) == (
            self._head_size,
            self._group * key.shape[1],
            self._dtype,
        )

    def begin(self, answers: Answers, arena: torch.Tensor) -> DecodeStep:
        """Attention of `answers` in the layers of one step. arena: keys or values of any layer
        [1, kv_heads, slots, head_size], the slots of a head next to each other."""
        threads = torch.get_num_threads() if self._parallel else 1
        tokens = -(-answers.tokens // _SCRATCH_STEP) * _SCRATCH_STEP
        if self._scratch.numel() < threads * self._group * tokens:
            self._scratch = torch.empty(threads * self._group * tokens)
        job = np.zeros(1, self._layout)
        job["kv_head"], job["kv_heads"] = arena.stride(1), arena.shape[1]
        job["scratch"], job["scratch_tokens"], job["threads"] = self._scratch.data_ptr(), tokens, threads
        job["answers"] = answers.rows.size
        for name in ("rows", "run_ends", "run_firsts", "run_lengths"):
            job[name] = getattr(answers, name).ctypes.data
        return DecodeStep(self._run, answers, job)

    def _run(self, job: int, threads: int) -> None:
        if self._parallel and threads > 1:
            self._parallel(self._function.address, job, threads, 0)
        else:
            self._function.ctypes(job)


class DecodeStep:
    """See `DecodeKernel.begin`. Holds all memory that `job` names."""

    def __init__(self, run: Callable[[int, int], None], answers: Answers, job: np.ndarray) -> None:
        self._run = run
        self._answers = answers
        self._job = job
        self._of_layer = job.view(np.int64)[:6]
        self._address = job.ctypes.data
        self._threads = int(job["threads"][0])
        self._scale: float | None = None

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float, output: torch.Tensor
    ) -> None:
        """query: [1, heads, rows, head_size]; keys, values: the layer's arena [1, kv_heads, slots, head_size]; output:
        [rows, heads, head_size], of which only the rows of the answers are written."""
        query = query if query.stride(3) == 1 else query.contiguous()
        _, head, row, _ = query.stride()
        self._of_layer[:] = (query.data_ptr(), row, head, keys.data_ptr(), values.data_ptr(), output.data_ptr())
        if scale != self._scale:
            self._job["scale"], self._scale = scale * _LOG2_E, scale
        self._run(self._address, self._threads)


def _torch_threads() -> Callable[[int, int, int, int], None] | None:
    """`GOMP_parallel(function, argument, threads, flags)` of torch's OpenMP; None where it has another."""
    try:
        parallel = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError):
        return None
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel


def _thread_number() -> Callable[[], int] | None:
    """`omp_get_thread_num` as a function that compiled code can call."""
    try:
        number = ctypes.CDLL(None).omp_get_thread_num
    except (AttributeError, OSError):
        return None
    number.argtypes, number.restype = [], ctypes.c_int
    return number


@lru_cache
def _compile(head_size: int, group: int, dtype: torch.dtype) -> tuple[Any, np.dtype[Any]]:
    """A C function that takes the address of a job, and the layout of a job. Takes some seconds, once in a process."""
    if dtype not in DTYPES:
        raise RuntimeError(f"the kernel does not read {dtype}")
    try:
        from inference.engine.attention.decode_kernel_source import JOB, build
    except ImportError as error:
        raise RuntimeError(f"numba is not installed: {error}") from error
    return build(head_size, group, half=dtype is torch.bfloat16, thread_number=_thread_number()), JOB
