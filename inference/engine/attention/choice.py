"""Which attention an engine uses: the fastest that proves, on numbers made up for it, to compute what it should."""

from __future__ import annotations

import time
from collections.abc import Iterator

import structlog
import torch

from inference.engine.attention.cpu import CpuAttention
from inference.engine.attention.cuda import VarlenAttention
from inference.engine.attention.decode_kernel import DecodeKernel
from inference.engine.attention.extents import ExtentAttention
from inference.engine.attention.reference import ReferenceAttention
from inference.engine.attention.seam import AttentionBackend, Segment
from inference.engine.block_manager import Extent
from inference.engine.kv_cache import KVCache, KVGeometry
from inference.engine.reservations import SlotMap
from inference.engine.threads import one_thread

log = structlog.get_logger()

#: Largest relative error (2-norm) against the reference, the input being random.
_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}

#: Tokens in the cache before the trial step, tokens in it: a chunk of a prompt, answers, a whole prompt, a first token.
_TRIAL = ((37, 21), (70, 1), (5, 1), (0, 40), (0, 1))
_TRIES = 3

#: One prompt chunk against this many keys tells which way of reading prompts is faster.
_TIMED_PAST, _TIMED_ROWS = 384, 128


@torch.inference_mode()
def choose_attention(
    geometry: KVGeometry, heads: int, dtype: torch.dtype, device: torch.device, block_size: int
) -> AttentionBackend:
    """heads: query heads of a layer. block_size: tokens of a KV block."""
    for candidate in _candidates(geometry, heads, dtype, device, block_size):
        try:
            error = _error(candidate, geometry, heads, dtype, device, block_size)
        except (RuntimeError, NotImplementedError, TypeError) as failure:
            log.warning("an attention can't be used here", attention=candidate.name, reason=str(failure))
            continue
        if error <= _TOLERANCE[dtype]:
            return candidate
        log.warning("an attention computes something else", attention=candidate.name, relative_error=error)
    return ExtentAttention()


def _candidates(
    geometry: KVGeometry, heads: int, dtype: torch.dtype, device: torch.device, block_size: int
) -> Iterator[AttentionBackend]:
    """Fastest first."""
    if device.type == "cuda":
        yield VarlenAttention(block_size)
        return
    kernel: DecodeKernel | None
    try:
        kernel = DecodeKernel(geometry.head_size, heads // geometry.kv_heads, dtype)
    except RuntimeError as reason:
        log.info("answers are attended by torch's operator", reason=str(reason))
        kernel = None
    try:
        with one_thread():
            products = _seconds(CpuAttention(None, True), geometry, heads, dtype) < _seconds(
                CpuAttention(None, False), geometry, heads, dtype
            )
    except (RuntimeError, NotImplementedError, AttributeError):
        products = False
    yield CpuAttention(kernel, products)
    yield CpuAttention(None, products)


def _seconds(backend: AttentionBackend, geometry: KVGeometry, heads: int, dtype: torch.dtype) -> float:
    """How long a chunk of a prompt takes this thread: the shortest of a few runs. Other processes hardly count."""
    trial = _Trial(geometry, heads, dtype, torch.device("cpu"), 16, ((_TIMED_PAST, _TIMED_ROWS),))
    times: list[float] = []
    for _ in range(_TRIES + 1):
        begin = time.thread_time()
        trial.run(backend, None)
        times.append(time.thread_time() - begin)
    return min(times[1:])


def _error(
    backend: AttentionBackend,
    geometry: KVGeometry,
    heads: int,
    dtype: torch.dtype,
    device: torch.device,
    block_size: int,
) -> float:
    """Largest relative error of `backend`, over the windows that the model's layers have."""
    trial = _Trial(geometry, heads, dtype, device, block_size, _TRIAL)
    errors: list[float] = []
    for window in {None, *geometry.windows}:
        expected = trial.run(ReferenceAttention(), window).float()
        errors.append(float((trial.run(backend, window).float() - expected).norm() / expected.norm()))
    return max(errors)


class _Trial:
    """A step over made-up numbers. `steps`: for each request, tokens before it and in it."""

    def __init__(
        self,
        geometry: KVGeometry,
        heads: int,
        dtype: torch.dtype,
        device: torch.device,
        block_size: int,
        steps: tuple[tuple[int, int], ...],
    ) -> None:
        self._geometry = KVGeometry(1, geometry.kv_heads, geometry.head_size)
        self._dtype, self._device = dtype, device
        self._segments: list[Segment] = []
        next_block, row = 0, 0
        for past, rows in steps:
            blocks = -(-(past + rows) // block_size)
            # The blocks of every second request lie in two runs, the later ones first.
            half = blocks // 2 if len(self._segments) % 2 else 0
            runs = (Extent(next_block + blocks - half, half), Extent(next_block, blocks - half))
            extents = tuple(extent for extent in runs if extent.length)
            self._segments.append(Segment(SlotMap(extents, block_size), row, rows, past))
            next_block, row = next_block + blocks, row + rows
        self._slots = next_block * block_size
        generator = torch.Generator().manual_seed(0)
        shape = (2, 1, geometry.kv_heads, self._slots, geometry.head_size)
        self._held = torch.randn(shape, generator=generator).to(device, dtype)
        self._query = torch.randn(1, row, heads, geometry.head_size, generator=generator).to(device, dtype)
        self._new = torch.randn(2, 1, geometry.kv_heads, row, geometry.head_size, generator=generator).to(device, dtype)

    def run(self, backend: AttentionBackend, window: int | None) -> torch.Tensor:
        cache = KVCache(self._geometry, self._slots, self._dtype, self._device, token_major=backend.token_major)
        cache.write(0, torch.arange(self._slots, device=self._device), *self._held)
        slots = [slot for s in self._segments for slot in s.slot_map.slots(s.past, s.end)]
        step = backend.begin(cache, self._segments, torch.tensor(slots, device=self._device))
        key, value = self._new
        return step.attend(0, self._query.transpose(1, 2), key, value, self._geometry.head_size**-0.5, window)
