"""Which KV has to travel, how it is cut into frames, and what of it has arrived. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from inference.contracts.errors import ErrorCode, TandemError


@dataclass(frozen=True, slots=True)
class Slice:
    """Tokens [start, end) of `layers`: what one Data frame carries."""

    layers: range
    start: int
    end: int


def needed(layers: int, windows: Sequence[int | None], tokens: int, held: int) -> tuple[range, ...]:
    """Per layer, the tokens of a prompt of `tokens` whose KV the receiver has to get.

    It has that of the first `held`. Of a layer with a window (`EngineInfo.windows`) the next token sees only the last
    ones, so the others never travel.
    """
    seen = windows or (None,) * layers
    return tuple(range(max(held, 0 if window is None else tokens - window), tokens) for window in seen)


def slices(
    wanted: Sequence[range], layers: range, start: int, end: int, layer_token_bytes: int, limit: int
) -> Iterator[Slice]:
    """Cut what is `wanted` of tokens [start, end) of `layers` into frames of at most `limit` bytes (one token of one
    layer at least), tokens outside, layers inside. layer_token_bytes: K and V of one token in one layer."""
    for first, run in groupby(layers, key=lambda layer: max(start, wanted[layer].start)):
        alike = list(run)
        for tokens in _steps(first, end, max(1, limit // layer_token_bytes)):
            fit = max(1, limit // (layer_token_bytes * len(tokens)))
            for part in _steps(alike[0], alike[-1] + 1, fit):
                yield Slice(part, tokens.start, tokens.stop)


def _steps(start: int, end: int, length: int) -> Iterator[range]:
    for first in range(start, end, length):
        yield range(first, min(first + length, end))


class Coverage:
    """Which tokens of which layers have arrived, in any order, each once."""

    def __init__(self, wanted: Sequence[range]) -> None:
        self._wanted = wanted
        self._gaps = [[layer] if layer else [] for layer in wanted]  # what is missing, in order

    def add(self, piece: Slice) -> None:
        """Raises `TandemError(TOKEN_COUNT_MISMATCH)` for what was not needed or is here already."""
        layers, tokens = piece.layers, range(piece.start, piece.end)
        inside = 0 <= layers.start < layers.stop <= len(self._gaps) and len(tokens) > 0
        at = [self._gap_around(layer, tokens) for layer in layers] if inside else [None]
        if None in at:
            raise TandemError(
                ErrorCode.TOKEN_COUNT_MISMATCH,
                f"KV of tokens [{piece.start}, {piece.end}) of layers [{layers.start}, {layers.stop}) was not "
                f"expected: {self.missing}",
            )
        for layer, index in zip(layers, at, strict=True):
            if index is not None:
                gap = self._gaps[layer][index]
                left = (range(gap.start, tokens.start), range(tokens.stop, gap.stop))
                self._gaps[layer][index : index + 1] = [part for part in left if part]

    def _gap_around(self, layer: int, tokens: range) -> int | None:
        gaps = self._gaps[layer]
        index = bisect_left(gaps, tokens.stop, key=lambda gap: gap.stop)
        return index if index < len(gaps) and gaps[index].start <= tokens.start else None

    @property
    def complete(self) -> bool:
        return not any(self._gaps)

    @property
    def missing(self) -> str:
        """What is not here, for people."""
        count = sum(len(gap) for gaps in self._gaps for gap in gaps)
        whole = sum(map(len, self._wanted))
        return f"{count} of {whole} (layer, token) places are missing"
