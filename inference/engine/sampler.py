"""Chooses tokens from logits.

Randomness is stateless: the draw for token `index` of an answer depends on the request's seed and on `index` alone
(Philox, a counter-based generator: Salmon et al., SC 2011). So the answer is the same whoever computes which of its
tokens, alone or in any batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Sampling

_MASK_64 = 2**64 - 1


def sample(logits: torch.Tensor, draws: Sequence[tuple[Sampling, int]]) -> list[int]:
    """One token id per row of `logits` [rows, vocabulary]; `draws`: per row, the sampling and the token's index.

    Raises:
        TandemError(ENGINE_FAILED): a row has no largest number (NaN), so any token made from it would be noise.
    """
    best = logits.max(dim=-1)
    if bool(torch.isnan(best.values).any()):
        raise TandemError(ErrorCode.ENGINE_FAILED, "the model computed NaN; its weights or its dtype do not work here")
    ids: list[int] = best.indices.tolist()
    for row, (sampling, index) in enumerate(draws):
        if sampling.temperature > 0:
            ids[row] = draw(logits[row].float().cpu().numpy(), sampling, index)
    return ids


def draw(logits: np.ndarray, sampling: Sampling, index: int) -> int:
    """Draw from `logits` [vocabulary] after temperature, then top-k, then top-p (over what top-k left).

    sampling.temperature must be positive.
    """
    scores = (logits - logits.max()).astype(np.float64) / sampling.temperature
    ids = np.arange(scores.size)
    if 0 < sampling.top_k < ids.size:
        ids = np.sort(np.argpartition(-scores, sampling.top_k - 1)[: sampling.top_k])
    weights = np.exp(scores[ids])
    if sampling.top_p < 1:
        ids, weights = _nucleus(ids, weights, sampling.top_p)
    cumulative = np.cumsum(weights)
    chosen = np.searchsorted(cumulative, uniform(sampling.seed, index) * cumulative[-1], side="right")
    return int(ids[min(chosen, ids.size - 1)])


def uniform(seed: int, index: int) -> float:
    """A number in [0, 1) that depends on nothing but `seed` (any integer) and `index`."""
    key = np.array([seed & _MASK_64, index], dtype=np.uint64)
    return float(np.random.Generator(np.random.Philox(key=key)).random())


def _nucleus(ids: np.ndarray, weights: np.ndarray, top_p: float) -> tuple[np.ndarray, np.ndarray]:
    """The fewest most likely tokens that hold at least `top_p` of the weight; always one (Holtzman et al., 2020)."""
    total = weights.sum()
    # Tokens below this floor hold less than 1 - top_p together, so none is in the nucleus: saves sorting them.
    likely = weights >= min((1 - top_p) * total / weights.size, weights.max())
    ids, weights = ids[likely], weights[likely]
    order = np.argsort(-weights, kind="stable")
    count = int(np.searchsorted(np.cumsum(weights[order]), top_p * total)) + 1
    return ids[order[:count]], weights[order[:count]]
