"""Who writes the answer: by KV room, the pace that its answers would have, and what a worker has of the prompt."""

from __future__ import annotations

import random
from collections.abc import Sequence

from inference.contracts.routing import WorkerRoute
from inference.router.choosing.ask import Ask, Barred, Standings
from inference.router.choosing.looking import NEARLY, fittest, held_by, look, nearly_best, slowness
from inference.router.choosing.roster import Candidate, Roster
from inference.router.choosing.standing import UNKNOWN

_NO_ROOM, _TOO_SLOW = 1 << 1, 1 << 0
_FAST_WRITING_S = 2e-3  # so fast that differences are measuring noise
_HELD_COUNTS = 2  # to read a token again costs a decode worker more than to keep one more


def pick_decode(
    roster: Roster, standings: Standings, ask: Ask, barred: Barred, rng: random.Random
) -> WorkerRoute | None:
    """The worker that writes the answer; None when there is none.

    Fit ones first (in sight, no suspects, with a partner), of these the ones with room for all of the request, of these
    the ones that keep the promised time between tokens with one answer more; then by KV tokens held, those of this
    request included, in relation to the worker's size, and weighed by the time between tokens
    with one answer more, where that is notably longer than at the best one; less what the worker has of the prompt.
    While the size of one in question is unknown, all count as equal in size.
    """
    need = ask.prompt_tokens + ask.answer_tokens

    def among(looked_at: Sequence[Candidate], own: Candidate | None) -> Candidate | None:
        fit = fittest(looked_at, barred, lambda candidate: _lacks(candidate, standings, need, ask.itl_target_s))
        known = [standings.get(candidate.key, UNKNOWN) for candidate in fit]
        steps = [standing.step_with_one_more_s for standing in known]
        best = min((step for step in steps if step is not None), default=None)
        unit = _typical_size([standing.kv_tokens_total for standing in known])
        costs = []
        for candidate, standing, step in zip(fit, known, steps, strict=True):
            tokens = standing.kv_tokens + standing.others_kv_tokens + need
            size = unit / (standing.kv_tokens_total or unit) if unit else 1.0
            load = tokens * size * slowness(step, best, _FAST_WRITING_S)
            costs.append(load - _HELD_COUNTS * held_by(candidate, ask, own))
        return nearly_best(fit, costs, NEARLY * need, own, rng)

    return look(roster.answering, ask, barred, rng, among)


def _lacks(candidate: Candidate, standings: Standings, need: int, itl_target_s: float | None) -> int:
    standing = standings.get(candidate.key, UNKNOWN)
    lacks = 0
    total = standing.kv_tokens_total
    if total is not None and standing.kv_tokens + standing.others_kv_tokens + need > total:
        lacks |= _NO_ROOM
    if itl_target_s is not None and standing.answers + standing.others_answers:
        step_s = standing.step_with_one_more_s
        lacks |= _TOO_SLOW if step_s is not None and step_s > itl_target_s else 0
    return lacks


def _typical_size(sizes: Sequence[int | None]) -> float | None:
    """The mean KV size; None while one is unknown."""
    known = [size for size in sizes if size]
    return sum(known) / len(known) if known and len(known) == len(sizes) else None
