"""Attention on CPUs: answers by a kernel made for them, prompts by whichever matrix products are faster here."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from inference.engine.attention.decode_kernel import Answers, DecodeKernel, DecodeStep
from inference.engine.attention.extents import ExtentStep
from inference.engine.attention.seam import AttentionStep, Segment, window_start
from inference.engine.kv_cache import KVCache

#: Rows of one KV head that are taken together: their scores stay in the second-level cache.
_TOGETHER_ROWS = 384

#: Shorter chunks gain nothing.
_LEAST_ROWS = 16


@dataclass(frozen=True, slots=True)
class CpuAttention:
    """An `AttentionBackend`. kernel: for answers; None leaves them to torch's operator. products: whether prompts are
    read by oneDNN's matrix products, which beat torch's operator on processors that MKL does not know well."""

    kernel: DecodeKernel | None
    products: bool

    token_major = False

    @property
    def name(self) -> str:
        answers = "a compiled kernel" if self.kernel else "torch's operator"
        prompts = "oneDNN products" if self.products else "torch's operator"
        return f"answers by {answers}, prompts by {prompts}"

    def begin(self, cache: KVCache, segments: list[Segment], slots: torch.Tensor) -> AttentionStep:
        return _CpuStep(cache, segments, slots, self.kernel, self.products)


class _CpuStep(ExtentStep):
    def __init__(
        self,
        cache: KVCache,
        segments: list[Segment],
        slots: torch.Tensor,
        kernel: DecodeKernel | None,
        products: bool,
    ) -> None:
        super().__init__(cache, segments, slots)
        self._kernel = kernel
        self._products = products
        self._ones = [segment for segment in segments if segment.rows == 1]
        self._chunks = [segment for segment in segments if segment.rows > 1]
        self._answers: dict[int | None, DecodeStep] = {}

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
        window: int | None,
    ) -> torch.Tensor:
        self._cache.write(layer, self._slots, key, value)
        _, heads, tokens, size = query.shape
        factor = size**-0.5 if scale is None else scale
        output = query.new_empty(tokens, heads, size)
        if self._ones and self._kernel is not None and self._kernel.fits(query, key):
            keys, values = self._cache.arena(layer)
            self._answers_in(window, self._kernel, keys).attend(query, keys, values, factor, output)
        else:
            for segment in self._ones:
                self.attend_one(layer, segment, query, scale, window, output)
        for segment in self._chunks:
            if self._products and segment.rows >= _LEAST_ROWS:
                self._multiply(layer, segment, query, factor, window, output)
            else:
                self.attend_many(layer, segment, query, scale, window, output)
        return output.unsqueeze(0)

    def _answers_in(self, window: int | None, kernel: DecodeKernel, arena: torch.Tensor) -> DecodeStep:
        """The answers of the step and the KV that they see; all layers of one window share it."""
        if window not in self._answers:
            spans = [s.slot_map.spans(window_start(s.past, window), s.end) for s in self._ones]
            answers = Answers.of([segment.first_row for segment in self._ones], spans)
            self._answers[window] = kernel.begin(answers, arena)
        return self._answers[window]

    def _multiply(
        self,
        layer: int,
        segment: Segment,
        query: torch.Tensor,
        factor: float,
        window: int | None,
        output: torch.Tensor,
    ) -> None:
        """As `attend_many`: scores, softmax and weighted values of one KV head and all its query heads at a time."""
        heads, size = output.shape[1:]
        kv_heads = self._cache.geometry.kv_heads
        group = heads // kv_heads
        step = max(_LEAST_ROWS, _TOGETHER_ROWS // group)
        for offset in range(0, segment.rows, step):
            rows = min(step, segment.rows - offset)
            position, first = segment.past + offset, segment.first_row + offset
            begin, end = window_start(position, window), position + rows
            keys, values = self._cache.read(layer, segment.slot_map.spans(begin, end))
            hidden = ~self._masks.seen(rows, end - begin, position - begin, window)
            # Without a window the keys before the group are seen by all of it: only the others need a mask.
            masked = 0 if window is not None else position - begin
            for head in range(kv_heads):
                mine = slice(head * group, (head + 1) * group)
                given = (query[0, mine, first : first + rows] * factor).reshape(group * rows, size)
                scores = _product(given, keys[0, head])
                scores.view(group, rows, -1)[:, :, masked:].masked_fill_(hidden[:, masked:], -torch.inf)
                attended = _product(torch.softmax(scores, dim=-1), values[0, head].t())
                output[first : first + rows, mine] = attended.view(group, rows, size).transpose(0, 1)


def _product(rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """rows @ weights.T by oneDNN."""
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, weights, None, "none", [], "")
    return product
