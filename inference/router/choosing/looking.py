"""How one of many workers is looked for: the fittest of them, among these the cheapest, among nearly equal ones the
session's own.

What a worker has of a prompt counts for as much as it saves and no more, so a busy worker is left for an idle one as
soon as that is quicker: no session and no common beginning makes a hot spot. Among nearly equal workers the session's
own is taken, which is the same in every router process; without a session it is chance.

A worker whose node is silent is a last resort: the control plane lost sight of it, which is no reason to refuse a
request that it may well serve. Before it come those that lately failed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from inference.contracts.routing import WorkerRoute
from inference.router.choosing.ask import Ask, Barred
from inference.router.choosing.roster import SUSPECT, Candidate, Choices

#: Of more workers than so many, a random stretch is looked at besides those that have some of the prompt: the best of
#: 48 is one of the best 2 in 100, and several routers with figures of a second ago do not all run to the same one.
MOST_LOOKED_AT = 48

#: Workers whose costs differ by less than this part of what the request itself costs are equal.
NEARLY = 0.25

_PRESUMED = 0.5  # of the earlier turns of a conversation, at the worker that is its own in every router
_NOTABLE_PACE = 1.25  # what differs less is measuring noise

#: The best of those that are looked at, the session's own among them or not; None: nobody is fit.
Among = Callable[[Sequence[Candidate], Candidate | None], Candidate | None]


def look(choices: Choices, ask: Ask, barred: Barred, rng: random.Random, among: Among) -> WorkerRoute | None:
    """Choose among all, or of very many among some; among all again where the best of some is not fit."""
    own = None if ask.session is None else choices.pinned(ask.session)
    chosen = None
    if len(choices.workers) > MOST_LOOKED_AT:
        chosen = among(_some(choices, ask, own, rng), own)
        if chosen is not None and (chosen.unfit or chosen.key in barred.suspects):
            chosen = None
    chosen = chosen or among(choices.workers, own)
    return None if chosen is None else chosen.route


def _some(choices: Choices, ask: Ask, own: Candidate | None, rng: random.Random) -> list[Candidate]:
    """A random stretch, with those that have some of the prompt and the session's own."""
    begin = rng.randrange(len(choices.workers))
    stretch = choices.workers[begin : begin + MOST_LOOKED_AT]
    some = {candidate.key: candidate for candidate in stretch}
    some |= {c.key: c for c in choices.workers[: MOST_LOOKED_AT - len(stretch)]}
    known = [choices.by_key.get(key) for key in ask.held]
    known.append(own)
    some |= {candidate.key: candidate for candidate in known if candidate is not None}
    return list(some.values())


def fittest(looked_at: Iterable[Candidate], barred: Barred, lacks: Callable[[Candidate], int]) -> list[Candidate]:
    """Those for which the least speaks against choosing them."""
    fittest: list[Candidate] = []
    least = 1 << 30
    for candidate in looked_at:
        if candidate.key in barred.excluded:
            continue
        unfit = candidate.unfit | lacks(candidate)
        if candidate.key in barred.suspects:
            unfit |= SUSPECT
        if unfit < least:
            least, fittest = unfit, []
        if unfit == least:
            fittest.append(candidate)
    return fittest


def held_by(candidate: Candidate, ask: Ask, own: Candidate | None) -> float:
    """Prompt tokens of which the worker is presumed to have KV. Earlier turns may have gone to it by another router."""
    known = ask.held.get(candidate.key, 0)
    return max(known, _PRESUMED * ask.earlier_tokens) if candidate is own else known


def slowness(pace: float | None, best: float | None, fast: float) -> float:
    """1 for the best and what is nearly so good, for what is `fast` in any case, and for what was not measured."""
    if pace is None or best is None or pace < _NOTABLE_PACE * max(best, fast):
        return 1.0
    return pace / max(best, fast)


def nearly_best(
    fit: Sequence[Candidate],
    costs: Sequence[float],
    slack: float,
    own: Candidate | None,
    rng: random.Random,
) -> Candidate | None:
    """The session's own, or any, of those that cost at most `slack` more than the best."""
    if not fit:
        return None
    limit = min(costs) + slack
    best = [candidate for candidate, cost in zip(fit, costs, strict=True) if cost <= limit]
    if any(candidate is own for candidate in best):
        return own
    return best[int(rng.random() * len(best))]
