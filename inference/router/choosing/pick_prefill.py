"""Who reads the prompt where the answering worker does not: whose KV of it is there first."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from inference.contracts.routing import WorkerRoute
from inference.router.choosing.ask import Ask, Barred, Standings
from inference.router.choosing.looking import NEARLY, fittest, held_by, look, nearly_best, slowness
from inference.router.choosing.roster import Candidate, Roster
from inference.router.choosing.standing import UNKNOWN, Pace, WorkerKey

_FAST_READING_S = 1e-5  # so fast that differences are measuring noise
_FAST_HANDOFF_S = 5e-3  # and so short


@dataclass(frozen=True, slots=True)
class Handoff:
    """To the answering worker. tokens: whose KV is to travel. paces: of prefill workers, in seconds for a token, what
    of it their reading does not hide."""

    tokens: int = 0
    paces: Mapping[WorkerKey, Pace] = field(default_factory=dict)


NOTHING_TRAVELS = Handoff()


def pick_prefill(
    roster: Roster,
    answering: WorkerRoute,
    standings: Standings,
    ask: Ask,
    barred: Barred,
    rng: random.Random,
    handoff: Handoff = NOTHING_TRAVELS,
) -> WorkerRoute | None:
    """The partner of `answering` with which the answer is under way soonest; None when there is none.

    That is when it has read what waits there and what it lacks of this prompt (requests differ in size by a factor of a
    hundred, so counting them misleads), and when its KV has arrived: until then the first token is the only one. While
    the pace of one in question is unknown, all count as equally fast; a pair whose hand-off was not measured counts as
    the median of those that were.
    """
    choices = roster.partners(answering)

    def among(looked_at: Sequence[Candidate], own: Candidate | None) -> Candidate | None:
        fit = fittest(looked_at, barred, lambda candidate: 0)
        known = [standings.get(candidate.key, UNKNOWN) for candidate in fit]
        paces = [pace for standing in known if (pace := standing.reading.each_s) is not None]
        best = min(paces) if paces and len(paces) == len(fit) else None
        unit = max(best, _FAST_READING_S) if best is not None else None
        costs = []
        for candidate, standing, later_s in zip(fit, known, _later_s(fit, handoff), strict=True):
            lacking = max(0, ask.prompt_tokens - held_by(candidate, ask, own))
            tokens = standing.backlog_tokens + standing.others_backlog_tokens + lacking
            cost = tokens * slowness(standing.reading.each_s, best, _FAST_READING_S)
            costs.append(cost + (later_s / unit if unit is not None else 0.0))
        return nearly_best(fit, costs, NEARLY * ask.prompt_tokens, own, rng)

    return look(choices, ask, barred, rng, among)


def _later_s(fit: Sequence[Candidate], handoff: Handoff) -> list[float]:
    """By how much the KV of each arrives later than that of the quickest pair, where that is notable."""
    paces = [handoff.paces[candidate.key].each_s if candidate.key in handoff.paces else None for candidate in fit]
    known = [pace for pace in paces if pace is not None]
    if not known or not handoff.tokens:
        return [0.0] * len(fit)
    typical = median(known)
    seconds = [handoff.tokens * (typical if pace is None else pace) for pace in paces]
    soonest = min(seconds)
    return [0.0 if slowness(each, soonest, _FAST_HANDOFF_S) == 1.0 else each - soonest for each in seconds]
