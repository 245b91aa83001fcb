"""Logits -> logits: bias, penalties, tokens that may not come. Sparse: the cost is that of the tokens met, not of the
vocabulary, except for grammars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from inference.engine.sampling.chooser import Chooser


def adjusted(logits: torch.Tensor, choosers: Sequence[Chooser]) -> torch.Tensor:
    """`logits` [rows, vocabulary] after everything but temperature; the same tensor where nothing is asked for.

    Raises:
        TandemError: a grammar can't be followed any further.
    """
    steps = [
        step
        for applies, step in (
            (any(c.bias is not None for c in choosers), _add_bias),
            (any(c.tally is not None for c in choosers), _penalise),
            (any(len(c.banned) for c in choosers), _ban),
            (any(c.follower is not None for c in choosers), _hold_to_grammar),
        )
        if applies
    ]
    if not steps:
        return logits
    changed = logits.to(torch.float32, copy=True)
    for step in steps:
        step(changed, choosers)
    return changed


def _add_bias(logits: torch.Tensor, choosers: Sequence[Chooser]) -> None:
    biased = [(row, chooser.bias) for row, chooser in enumerate(choosers) if chooser.bias is not None]
    places = _places(logits, [(row, ids) for row, (ids, _) in biased])
    logits.index_put_(places, _on(logits, [values for _, (_, values) in biased]), accumulate=True)


def _penalise(logits: torch.Tensor, choosers: Sequence[Chooser]) -> None:
    """Keskar et al. (2019) for repetition; presence and frequency as OpenAI defines them."""
    met = [(row, c.tally, c.sampling) for row, c in enumerate(choosers) if c.tally is not None]
    places = _places(logits, [(row, tally.ids) for row, tally, _ in met])
    counts = [tally.counts for _, tally, _ in met]
    repetition = _on(logits, [np.full(len(t.ids), s.repetition_penalty, np.float32) for _, t, s in met])
    charge = _on(
        logits,
        [
            s.frequency_penalty * count + s.presence_penalty * (count > 0)
            for (_, _, s), count in zip(met, counts, strict=True)
        ],
    )
    values = logits[places]
    logits[places] = torch.where(values > 0, values / repetition, values * repetition) - charge


def _ban(logits: torch.Tensor, choosers: Sequence[Chooser]) -> None:
    logits[_places(logits, ((row, chooser.banned) for row, chooser in enumerate(choosers)))] = -torch.inf


def _hold_to_grammar(logits: torch.Tensor, choosers: Sequence[Chooser]) -> None:
    held = [(row, chooser.follower) for row, chooser in enumerate(choosers) if chooser.follower is not None]
    allowed = torch.from_numpy(np.stack([follower.allowed() for _, follower in held])).to(logits.device)
    rows = torch.tensor([row for row, _ in held], device=logits.device)
    logits[rows] = logits[rows].masked_fill(~allowed, -torch.inf)


def _places(logits: torch.Tensor, entries: Iterable[tuple[int, np.ndarray]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Index of tokens in `logits`; entries: a row and its token ids."""
    rows, ids = zip(*((np.full(len(ids), row), ids) for row, ids in entries), strict=True)
    return _on(logits, rows), _on(logits, ids)


def _on(logits: torch.Tensor, arrays: Sequence[np.ndarray]) -> torch.Tensor:
    joined = np.concatenate(arrays)
    return torch.from_numpy(joined.astype(np.float32, copy=False) if joined.dtype == np.float64 else joined).to(
        logits.device
    )
