"""What this machine does best, tried at start where nothing was set: number of threads and dtype.

Both are a matter of processor, neighbours and libraries, so they are measured rather than looked up. What was chosen is
told with its reason in the engine's log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from inference.engine.packed_linear import PackedLinear
from inference.engine.threads import one_thread

#: A layer of a small model, many times over: more than the caches hold, as in a real step.
_SIZE, _LAYERS = 1024, 24
_TRIES = 3

#: Rows that are computed together: an answer, and a prompt.
_ANSWER_ROWS, _PROMPT_ROWS = 1, 128

#: Threads that gain less than this over one thread are not worth what they lose when a core is taken from them.
_LEAST_GAIN_OF_THREADS = 1.15

#: bfloat16 rounds to three digits, and only models that were stored so are used to it. It has to be worth it.
_LEAST_GAIN_OF_BFLOAT16 = 2.5


@dataclass(frozen=True, slots=True)
class DtypeChoice:
    dtype: torch.dtype
    reason: str


@dataclass(frozen=True, slots=True)
class ThreadChoice:
    threads: int
    reason: str


@torch.inference_mode()
def choose_threads(most: int) -> ThreadChoice:
    """One thread or `most`. Leaves the number of threads of this thread as chosen."""
    if most == 1:
        torch.set_num_threads(1)
        return ThreadChoice(1, "one core")
    layers = _layers(torch.float32)
    torch.set_num_threads(1)
    alone = [_seconds(layers, rows, torch.float32) for rows in (_ANSWER_ROWS, _PROMPT_ROWS)]
    torch.set_num_threads(most)
    together = [_seconds(layers, rows, torch.float32) for rows in (_ANSWER_ROWS, _PROMPT_ROWS)]
    gains = [one / many for one, many in zip(alone, together, strict=True)]
    said = f"{most} threads are {gains[0]:.2g} times as fast as one with answers, {gains[1]:.2g} times with prompts"
    if sum(gains) / len(gains) < _LEAST_GAIN_OF_THREADS:
        torch.set_num_threads(1)
        return ThreadChoice(1, said)
    return ThreadChoice(most, said)


@torch.inference_mode()
def choose_dtype(stored: torch.dtype | None) -> DtypeChoice:
    """For a CPU. stored: of the weights, as the model's configuration says."""
    if stored is not torch.bfloat16:
        return DtypeChoice(torch.float32, "the model was not stored in bfloat16")
    with one_thread():
        single, half = (
            [_seconds(_layers(dtype), rows, dtype, time.thread_time) for rows in (_ANSWER_ROWS, _PROMPT_ROWS)]
            for dtype in (torch.float32, torch.bfloat16)
        )
    gain = sum(one / two for one, two in zip(single, half, strict=True)) / 2
    dtype = torch.bfloat16 if gain >= _LEAST_GAIN_OF_BFLOAT16 else torch.float32
    return DtypeChoice(dtype, f"bfloat16 is {gain:.1f} times as fast here; from {_LEAST_GAIN_OF_BFLOAT16:g} it is used")


def _layers(dtype: torch.dtype) -> list[Callable[[torch.Tensor], torch.Tensor]]:
    """Packed if this torch can, as a model's would be."""
    made: list[Callable[[torch.Tensor], torch.Tensor]] = []
    for _ in range(_LAYERS):
        layer = nn.Linear(_SIZE, _SIZE, bias=False, dtype=dtype)
        try:
            made.append(PackedLinear(layer))
        except (RuntimeError, NotImplementedError):
            made.append(layer)
    return made


def _seconds(
    layers: list[Callable[[torch.Tensor], torch.Tensor]],
    rows: int,
    dtype: torch.dtype,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The shortest of a few runs through all layers, as other processes only ever make a run longer; on the clock of a
    single thread they make it hardly longer at all."""
    given = torch.randn(rows, _SIZE).to(dtype)
    times: list[float] = []
    for _ in range(_TRIES + 1):
        begin = clock()
        for layer in layers:
            layer(given)
        times.append(clock() - begin)
    return min(times[1:])
