"""Runs one step: the model over all its chunks, then a new token for each answer that gets one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch

from inference.engine.kv_cache import KVCache
from inference.engine.model_runner import ModelRunner, Piece
from inference.engine.reservations import Reservations
from inference.engine.sampling.sampled import Sampled
from inference.engine.sampling.sampler import sample
from inference.engine.scheduler import Chunk
from inference.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """tokens: the new token of each sequence that gets one. released: not computed, since their handles were released
    after the step was planned."""

    tokens: dict[Sequence, Sampled] = field(default_factory=dict)
    released: list[Sequence] = field(default_factory=list)


class StepRunner:
    """Computes what was planned and changes no sequence. Used in the engine's thread, within inference mode."""

    def __init__(self, runner: ModelRunner, cache: KVCache, reservations: Reservations) -> None:
        self._runner = runner
        self._cache = cache
        self._reservations = reservations

    def copy_shared(self) -> None:
        """Give handles the KV that they share with others."""
        if self._reservations.copies_are_due:
            with self._reservations.due_copies() as spans:
                self._cache.copy(spans)

    def run(self, chunks: list[Chunk], on_layer: Callable[[int], None] | None = None) -> StepOutcome:
        """Compute `chunks`. Where one ends a prompt, the siblings of its sequence get their first token too.

        on_layer: see `ModelRunner.run`.
        """
        outcome = StepOutcome()
        with ExitStack() as pins:
            pieces: list[Piece] = []
            groups: list[list[Sequence]] = []
            for chunk in chunks:
                sequence = chunk.sequence
                try:
                    slot_map = pins.enter_context(self._reservations.pin(sequence.handle, sequence.answer))
                except ValueError:
                    outcome.released.append(sequence)
                    continue
                pieces.append(Piece(slot_map, sequence.token_ids[chunk.start : chunk.end], chunk.start, chunk.samples))
                if chunk.samples:
                    groups.append([sequence, *(sequence.siblings if sequence.reading else ())])
            if not pieces:
                return outcome
            logits = self._runner.run(self._cache, pieces, on_layer)
        if groups:
            outcome.tokens.update(_sample(logits, groups))
        return outcome


def _sample(logits: torch.Tensor, groups: list[list[Sequence]]) -> dict[Sequence, Sampled]:
    """A token for each sequence; those of one group draw from the same row of `logits`."""
    sequences = [sequence for group in groups for sequence in group]
    if len(sequences) > len(groups):
        logits = logits[[row for row, group in enumerate(groups) for _ in group]]
    tokens = sample(logits, [sequence.chooser for sequence in sequences])
    return dict(zip(sequences, tokens, strict=True))
