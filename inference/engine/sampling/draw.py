"""Draws tokens from logits after temperature, min-p, top-k and top-p, all rows of a step at once.

A row's token depends on that row alone, never on the others of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from inference.contracts.sampling import Sampling

#: How many of the likeliest tokens are looked at: first the fewest, then more where that was not enough, then all.
#: Sorting a whole vocabulary of 50,000 takes some 3 ms a row, its 64 largest 0.05 ms.
_LADDER = (64, 1024, 8192)

#: Weights of a whole row are summed in runs of so many, then over the runs: eight times faster than one by one.
_RUN = 512


def draw(logits: torch.Tensor, samplings: Sequence[Sampling], uniforms: torch.Tensor) -> torch.Tensor:
    """One token id per row of `logits` [rows, vocabulary]; uniforms [rows], float64: a number in [0, 1) for each.

    Every temperature must be positive.
    """
    scores = _scores(logits, samplings)
    chosen = torch.empty(len(samplings), dtype=torch.long, device=logits.device)
    left = [row for row, sampling in enumerate(samplings) if _restricts(sampling)]
    free = [row for row, sampling in enumerate(samplings) if not _restricts(sampling)]
    if free:
        chosen[free] = _draw_from_all(rows_of(scores, free).exp(), uniforms[free])
    for width in (*(width for width in _LADDER if width < scores.shape[1]), scores.shape[1]):
        mine = [row for row in left if samplings[row].top_k < width or width == scores.shape[1]]
        if mine:
            tokens, known = _draw_among(rows_of(scores, mine), [samplings[row] for row in mine], uniforms[mine], width)
            chosen[mine] = tokens
            done = {row for row, is_known in zip(mine, known.tolist(), strict=True) if is_known}
            left = [row for row in left if row not in done]
    return chosen


def rows_of(tensor: torch.Tensor, rows: list[int]) -> torch.Tensor:
    """Those `rows`, in rising order, of `tensor`; itself where they are all, since big copies cost page faults."""
    return tensor if len(rows) == len(tensor) else tensor[rows]


def _scores(logits: torch.Tensor, samplings: Sequence[Sampling]) -> torch.Tensor:
    """Logarithms of weights: the likeliest token of each row has 0."""
    temperatures = torch.tensor([s.temperature for s in samplings], dtype=torch.float64).clamp_min(1e-30)
    scores = logits.float()
    scores = scores - scores.amax(dim=-1, keepdim=True)
    return scores.div_(temperatures.to(logits.device, torch.float32).unsqueeze(1))


def _restricts(sampling: Sampling) -> bool:
    return sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0


def _draw_from_all(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    rows, vocabulary = weights.shape
    if vocabulary % _RUN:
        weights = torch.nn.functional.pad(weights, (0, -vocabulary % _RUN))
    runs = weights.view(rows, -1, _RUN)
    running = runs.sum(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    targets = uniforms * running[:, -1]
    run = _at(running, targets)
    before = torch.nn.functional.pad(running, (1, 0)).gather(1, run.unsqueeze(1)).squeeze(1)
    inside = runs[torch.arange(rows, device=weights.device), run].cumsum(dim=-1, dtype=torch.float64)
    return run * _RUN + _at(inside, targets - before)


def _draw_among(
    scores: torch.Tensor, samplings: Sequence[Sampling], uniforms: torch.Tensor, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens drawn among the `width` likeliest of each row, and for which rows that is right: where whatever the
    restrictions leave is surely among them."""
    device, vocabulary = scores.device, scores.shape[1]
    values, ids = _likeliest(scores, width)
    floors = torch.tensor([s.min_p for s in samplings], device=device).log().unsqueeze(1)  # of 0: minus infinity
    most = torch.tensor([s.top_k or vocabulary for s in samplings], device=device)
    shares = torch.tensor([s.top_p for s in samplings], dtype=torch.float64, device=device)
    running = values.exp().cumsum(dim=-1, dtype=torch.float64)
    kept = torch.minimum(((values >= floors) & (values > -torch.inf)).sum(dim=-1), most)
    total = running.gather(1, (kept - 1).unsqueeze(1)).squeeze(1)
    if width < vocabulary and bool((kept == width).any()):  # min-p leaves more than can be seen here
        total = torch.where(kept == width, (scores.exp() * (scores >= floors)).sum(dim=-1, dtype=torch.float64), total)
    nucleus = (running < (shares * total).unsqueeze(1)).sum(dim=-1) + 1
    last = torch.where(shares < 1, torch.minimum(kept, nucleus), kept).clamp_max(width).unsqueeze(1) - 1
    place = torch.minimum(_at(running, uniforms * running.gather(1, last).squeeze(1)), last.squeeze(1))
    # An equally likely token might stand outside where the last one inside is as likely as the last one that is seen.
    known = values.gather(1, last).squeeze(1) > values[:, -1] if width < vocabulary else torch.ones_like(kept).bool()
    return ids.gather(1, place.unsqueeze(1)).squeeze(1), known


def _likeliest(scores: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `width` largest scores of each row and their ids, in falling order; of equal ones the lower id first."""
    if width == scores.shape[1]:
        ordered = scores.sort(dim=-1, descending=True, stable=True)
        return ordered.values, ordered.indices
    ids = scores.topk(width, dim=-1, sorted=False).indices.sort(dim=-1).values
    values, order = scores.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(1, order)


def _at(running: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The first place in each row of `running` [rows, n], sums of weights, that passes `targets` [rows]; never one of
    no weight, and the last one where rounding let none pass."""
    last = torch.searchsorted(running, running[:, -1:].contiguous())
    return torch.minimum(torch.searchsorted(running, targets.unsqueeze(1), right=True), last).squeeze(1)
