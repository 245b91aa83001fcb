"""Runs one step of the model: the chunks of all requests as one row of tokens, without padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from inference.engine.attention.seam import AttentionBackend, AttentionStep, Segment, attention_step
from inference.engine.kv_cache import KVCache
from inference.engine.reservations import SlotMap


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one request to compute: `token_ids` stand at positions from `past` on.

    wants_logits: the logits after the last of them are needed.
    """

    slot_map: SlotMap
    token_ids: list[int]
    past: int
    wants_logits: bool


@dataclass(frozen=True, slots=True)
class _ToldStep:
    """An `AttentionStep` that tells of each layer once it has attended in it, and so written its K and V."""

    step: AttentionStep
    on_layer: Callable[[int], None]

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
        window: int | None,
    ) -> torch.Tensor:
        output = self.step.attend(layer, query, key, value, scale, window)
        self.on_layer(layer)
        return output


class ModelRunner:
    """One model, without state of its own: KV lives in the cache that a step names. Use within inference mode."""

    def __init__(self, model: Any, device: torch.device, attention: AttentionBackend) -> None:
        self._model = model
        self._device = device
        self._attention = attention

    def run(self, cache: KVCache, pieces: list[Piece], on_layer: Callable[[int], None] | None = None) -> torch.Tensor:
        """Compute `pieces`, put their K and V into `cache`, and return logits [pieces that want them, vocabulary].

        When it returns, K and V are complete: another thread may read them. on_layer: told of each layer of which they
        are complete before; on a device that computes beside this thread, of none.
        """
        ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        last_rows: list[int] = []
        segments: list[Segment] = []
        for piece in pieces:
            length, end = len(piece.token_ids), piece.past + len(piece.token_ids)
            segments.append(Segment(piece.slot_map, len(ids), length, piece.past))
            ids += piece.token_ids
            positions += range(piece.past, end)
            slots += piece.slot_map.slots(piece.past, end)
            if piece.wants_logits:
                last_rows.append(len(ids) - 1)
        step = self._attention.begin(cache, segments, self._tensor(slots))
        if on_layer is not None and self._device.type == "cpu":
            step = _ToldStep(step, on_layer)
        with attention_step(step):
            output = self._model(
                input_ids=self._tensor(ids).unsqueeze(0),
                position_ids=self._tensor(positions).unsqueeze(0),
                use_cache=False,
                logits_to_keep=self._tensor(last_rows),
            )
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        logits: torch.Tensor = output.logits[0]
        return logits

    def _tensor(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.long, device=self._device)
