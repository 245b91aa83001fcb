"""The tokens of one step: every row of logits to a token, with its log-probability where that is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine.sampling.adjust import adjusted
from inference.engine.sampling.chooser import Chooser
from inference.engine.sampling.draw import draw, rows_of
from inference.engine.sampling.randomness import uniforms
from inference.engine.sampling.sampled import RawLogprob, Sampled

#: What stands for the logarithm of zero: JSON knows no infinity.
LOWEST_LOGPROB = -9999.0


def sample(logits: torch.Tensor, choosers: Sequence[Chooser]) -> list[Sampled]:
    """One token per row of `logits` [rows, vocabulary]; `choosers`: whose each row is. Changes neither.

    Raises:
        TandemError: ENGINE_FAILED when a row has no largest number (NaN), so any token made from it would be noise;
            INVALID_REQUEST when a grammar can't be followed any further.
    """
    best = logits.max(dim=-1)
    if bool(torch.isnan(best.values).any()):
        raise TandemError(ErrorCode.ENGINE_FAILED, "the model computed NaN; its weights or its dtype do not work here")
    changed = adjusted(logits, choosers)
    chosen = best.indices if changed is logits else changed.argmax(dim=-1)
    random = [row for row, chooser in enumerate(choosers) if chooser.sampling.temperature > 0]
    if random:
        mine = [choosers[row] for row in random]
        numbers = uniforms([c.sampling.seed for c in mine], [c.index for c in mine], [c.answer for c in mine])
        drawn = draw(rows_of(changed, random), [c.sampling for c in mine], torch.from_numpy(numbers).to(logits.device))
        chosen = chosen.index_copy(0, torch.tensor(random, device=logits.device), drawn)
    logprobs = _logprobs(logits, chosen, choosers)
    return [Sampled(token, logprobs.get(row)) for row, token in enumerate(chosen.tolist())]


def _logprobs(logits: torch.Tensor, chosen: torch.Tensor, choosers: Sequence[Chooser]) -> dict[int, RawLogprob]:
    """By row, for those that ask. By the model alone: before bias, penalties, grammar and temperature."""
    rows = [row for row, chooser in enumerate(choosers) if chooser.sampling.logprobs is not None]
    if not rows:
        return {}
    wanted = [choosers[row].sampling.logprobs or 0 for row in rows]
    known = rows_of(logits, rows).float().log_softmax(dim=-1).clamp_min(LOWEST_LOGPROB)
    own = known.gather(1, chosen[rows].unsqueeze(1)).squeeze(1).tolist()
    top = known.topk(min(max(wanted), known.shape[1]), dim=-1)
    values, ids = top.values.tolist(), top.indices.tolist()
    return {
        row: RawLogprob(own[at], tuple(zip(ids[at][:count], values[at][:count], strict=True)))
        for at, (row, count) in enumerate(zip(rows, wanted, strict=True))
    }
