"""Where a request goes. Pure functions of a deployment's roster, the workers' standing and what the request needs: the
router and a simulation decide alike.

`pick_decode` chooses the answering worker, by KV room, pace and what it has of the prompt already. Then, knowing how
much of the prompt that one lacks, `decide_split` says whether it reads the prompt itself; if not, `pick_prefill`
chooses who does, by the time until the first token: prompt tokens that wait there and those of this prompt it lacks,
times its measured pace (requests differ in size by a factor of a hundred, so counting requests misleads).

What a worker has of a prompt counts for as much as it saves and no more, so a busy worker is left for an idle one as
soon as that is quicker: no session and no common beginning makes a hot spot. Among nearly equal workers the session's
own is taken, which is the same in every router process; without a session it is chance.

A worker whose node is silent is a last resort: the control plane lost sight of it, which is no reason to refuse a
request that it may well serve. Before it come those that lately failed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.states import PrefillPath, Role
from inference.router.choosing.roster import SUSPECT, Candidate, Choices, Roster
from inference.router.choosing.standing import UNKNOWN, Standing, WorkerKey

#: Of more workers than so many, a random stretch is looked at besides those that have some of the prompt: the best of
#: 48 is one of the best 2 in 100, and several routers with figures of a second ago do not all run to the same one.
MOST_LOOKED_AT = 48

_NO_ROOM, _TOO_SLOW = 1 << 1, 1 << 0
_NOTABLE_PACE = 1.25  # what differs less is measuring noise,
_FAST_READING_S, _FAST_WRITING_S = 1e-5, 2e-3  # and so is what differs among workers that are so fast
_NEARLY = 0.25  # of what the request itself costs: workers that differ by less are equal
_PRESUMED = 0.5  # of the earlier turns of a conversation, at the worker that is its own in every router
_HELD_COUNTS = 2  # to read a token again costs a decode worker more than to keep one more
_CLEARLY_LATER, _LATER_BY_S = 1.5, 0.05

Standings = Mapping[WorkerKey, Standing]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request needs, as estimated before a worker has tokenised it.

    answer_tokens: the longest answer. held: prompt tokens that workers are presumed to have KV of. session: the same
    for all turns of a conversation; None is no session. earlier_tokens: of the prompt, what earlier turns had in
    theirs. itl_target_s: promised time between tokens.
    """

    prompt_tokens: int
    answer_tokens: int = 0
    held: Mapping[WorkerKey, int] = field(default_factory=dict)
    session: int | None = None
    earlier_tokens: int = 0
    itl_target_s: float | None = None


@dataclass(frozen=True, slots=True)
class Barred:
    """suspects: used when there is no other. excluded: never used."""

    suspects: Collection[WorkerKey] = ()
    excluded: Collection[WorkerKey] = ()


FREE = Barred()


def servable(deployment: DeploymentRoute) -> bool:
    """Whether one unified worker or one full pair is ready."""
    reads = {worker.fingerprint for worker in deployment.workers if worker.role is Role.PREFILL}
    return any(
        worker.role is Role.UNIFIED
        or (worker.role is Role.DECODE and worker.transfer is not None and worker.fingerprint in reads)
        for worker in deployment.workers
    )


def what_is_missing(deployment: DeploymentRoute) -> str:
    """Why a deployment that is not servable is not."""
    roles = {worker.role for worker in deployment.workers}
    name = repr(deployment.name)
    if not roles - {Role.PREFILL}:
        return f"No decode worker of {name} is ready."
    if Role.PREFILL not in roles:
        return f"No prefill worker of {name} is ready."
    return f"No pair of {name} is ready: its prefill and decode workers do not match."


def pick_decode(
    roster: Roster, standings: Standings, ask: Ask, barred: Barred, rng: random.Random
) -> WorkerRoute | None:
    """The worker that writes the answer; None when there is none.

    Fit ones first (in sight, no suspects, with a partner), of these the ones with room for all of the request, of these
    the ones that keep the promised time between tokens; then by KV tokens held, those of this request that are not
    there yet included, in relation to the worker's size, and weighed by its pace where that is notably slower than the
    best one's. While the size of one in question is unknown, all count as equal in size.
    """
    need = ask.prompt_tokens + ask.answer_tokens

    def among(looked_at: Sequence[Candidate]) -> Candidate | None:
        fit = _fittest(looked_at, barred, lambda candidate: _lacks(candidate, standings, need, ask.itl_target_s))
        unit, best_pace = _typical_size(fit, standings), _best_pace(fit, standings)
        own = _own(roster.answering, ask)
        costs = []
        for candidate in fit:
            standing = standings.get(candidate.key, UNKNOWN)
            tokens = standing.kv_tokens + standing.others_kv_tokens + need - _HELD_COUNTS * _held(candidate, ask, own)
            size = unit / (standing.kv_tokens_total or unit) if unit else 1.0
            costs.append(tokens * size * _slowness(standing.writing.each_s, best_pace, _FAST_WRITING_S))
        return _nearly_best(fit, costs, _NEARLY * need, own, rng)

    return _look(roster.answering, ask, among, barred, rng)


def decide_split(
    answering: WorkerRoute,
    uncached_tokens: int,
    threshold_tokens: int,
    here: Standing = UNKNOWN,
    elsewhere: Standing | None = None,
    lacking_tokens: int = 0,
) -> PrefillPath:
    """Who reads the prompt. LOCAL: the answering worker; for unified workers, for prompts of which at most
    `threshold_tokens` are not cached there, and where prompts wait at the best prefill worker, so that the answering
    one would clearly be done first, while it disturbs nobody.

    threshold_tokens: see `local_threshold`; 0 leaves every hand-off as it is. here, elsewhere: the answering worker and
    the best prefill worker. lacking_tokens: of the prompt, those that are not cached there.
    """
    if answering.role is Role.UNIFIED or uncached_tokens <= threshold_tokens:
        return PrefillPath.LOCAL
    disturbs = here.answers + here.others_answers > 1  # one of them is this request
    if not threshold_tokens or disturbs or elsewhere is None:
        return PrefillPath.HANDOFF
    here_s, elsewhere_s = predicted_ttft_s(here, uncached_tokens), predicted_ttft_s(elsewhere, lacking_tokens)
    waits = elsewhere.backlog_tokens + elsewhere.others_backlog_tokens > 0
    if here_s is None or elsewhere_s is None or not waits:
        return PrefillPath.HANDOFF
    clearly_later = elsewhere_s > _CLEARLY_LATER * here_s + _LATER_BY_S
    return PrefillPath.LOCAL if clearly_later else PrefillPath.HANDOFF


def local_threshold(fixed_tokens: int, *, automatic: bool, here: Standing, itl_target_s: float | None) -> int:
    """Most uncached tokens that the answering worker reads itself.

    Automatic: as many as it can read beside a step of its answers within the promised time between tokens,
    (target - time between tokens now) / time per prompt token. What was not measured yet, or not promised, leaves
    `fixed_tokens`.
    """
    read_s = here.reading.each_s
    if not automatic or itl_target_s is None or read_s is None:
        return fixed_tokens
    running = here.answers + here.others_answers > 1
    step_s = (here.writing.each_s or 0.0) if running else 0.0
    return max(0, int((itl_target_s - step_s) / read_s))


def pick_prefill(
    roster: Roster, answering: WorkerRoute, standings: Standings, ask: Ask, barred: Barred, rng: random.Random
) -> WorkerRoute | None:
    """The partner of `answering` that gives the first token soonest; None when there is none. While the pace of one in
    question is unknown, all count as equally fast."""
    choices = roster.partners(answering)

    def among(looked_at: Sequence[Candidate]) -> Candidate | None:
        fit = _fittest(looked_at, barred, lambda candidate: 0)
        paces = [standings.get(candidate.key, UNKNOWN).reading.each_s for candidate in fit]
        known = [pace for pace in paces if pace is not None]
        best = min(known) if len(known) == len(fit) and known else None
        own = _own(choices, ask)
        costs = []
        for candidate, pace in zip(fit, paces, strict=True):
            standing = standings.get(candidate.key, UNKNOWN)
            lacking = max(0, ask.prompt_tokens - _held(candidate, ask, own))
            tokens = standing.backlog_tokens + standing.others_backlog_tokens + lacking
            costs.append(tokens * _slowness(pace, best, _FAST_READING_S))
        return _nearly_best(fit, costs, _NEARLY * ask.prompt_tokens, own, rng)

    return _look(choices, ask, among, barred, rng)


def predicted_ttft_s(standing: Standing, uncached_tokens: int) -> float | None:
    """Seconds until a worker has read so many more prompt tokens; None when its pace was not measured."""
    read_s = standing.reading.each_s
    if read_s is None:
        return None
    return read_s * (standing.backlog_tokens + standing.others_backlog_tokens + uncached_tokens)


def soonest_ttft_s(roster: Roster, standings: Standings, ask: Ask) -> float | None:
    """The soonest that any worker could give the first token; None when the pace of one that might is unknown."""
    readers = [candidate for choices in roster.prefill.values() for candidate in choices.workers]
    readers += [candidate for candidate in roster.answering.workers if candidate.route.role is Role.UNIFIED]
    soonest: float | None = None
    for candidate in readers:
        lacking = max(0, ask.prompt_tokens - ask.held.get(candidate.key, 0))
        seconds = predicted_ttft_s(standings.get(candidate.key, UNKNOWN), lacking)
        if seconds is None:
            return None
        soonest = seconds if soonest is None else min(soonest, seconds)
    return soonest


def _look(
    choices: Choices,
    ask: Ask,
    among: Callable[[Sequence[Candidate]], Candidate | None],
    barred: Barred,
    rng: random.Random,
) -> WorkerRoute | None:
    """Choose among all, or of very many among some; among all again where the best of some is not fit."""
    chosen = None
    if len(choices.workers) > MOST_LOOKED_AT:
        chosen = among(_some(choices, ask, rng))
        if chosen is not None and (chosen.unfit or chosen.key in barred.suspects):
            chosen = None
    chosen = chosen or among(choices.workers)
    return None if chosen is None else chosen.route


def _some(choices: Choices, ask: Ask, rng: random.Random) -> list[Candidate]:
    """A random stretch, with those that have some of the prompt and the session's own."""
    begin = rng.randrange(len(choices.workers))
    stretch = choices.workers[begin : begin + MOST_LOOKED_AT]
    some = {candidate.key: candidate for candidate in stretch}
    some |= {c.key: c for c in choices.workers[: MOST_LOOKED_AT - len(stretch)]}
    known = [choices.by_key.get(key) for key in ask.held]
    known.append(_own(choices, ask))
    some |= {candidate.key: candidate for candidate in known if candidate is not None}
    return list(some.values())


def _fittest(looked_at: Iterable[Candidate], barred: Barred, lacks: Callable[[Candidate], int]) -> list[Candidate]:
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


def _lacks(candidate: Candidate, standings: Standings, need: int, itl_target_s: float | None) -> int:
    standing = standings.get(candidate.key, UNKNOWN)
    lacks = 0
    total = standing.kv_tokens_total
    if total is not None and standing.kv_tokens + standing.others_kv_tokens + need > total:
        lacks |= _NO_ROOM
    step_s = standing.writing.each_s
    if itl_target_s is not None and step_s is not None and standing.answers + standing.others_answers:
        lacks |= _TOO_SLOW if step_s > itl_target_s else 0
    return lacks


def _typical_size(fit: Sequence[Candidate], standings: Standings) -> float | None:
    """The mean KV size; None while one is unknown."""
    sizes = [standings.get(candidate.key, UNKNOWN).kv_tokens_total for candidate in fit]
    known = [size for size in sizes if size]
    return sum(known) / len(known) if known and len(known) == len(sizes) else None


def _best_pace(fit: Sequence[Candidate], standings: Standings) -> float | None:
    paces = (standings.get(candidate.key, UNKNOWN).writing.each_s for candidate in fit)
    return min((pace for pace in paces if pace is not None), default=None)


def _own(choices: Choices, ask: Ask) -> Candidate | None:
    """The session's own worker."""
    return None if ask.session is None else choices.pinned(ask.session)


def _held(candidate: Candidate, ask: Ask, own: Candidate | None) -> float:
    """Prompt tokens of which the worker is presumed to have KV. Earlier turns may have gone to it by another router."""
    known = ask.held.get(candidate.key, 0)
    return max(known, _PRESUMED * ask.earlier_tokens) if candidate is own else known


def _slowness(pace: float | None, best: float | None, fast: float) -> float:
    """1 for the best and what is nearly so good, for what is `fast` in any case, and for what was not measured."""
    if pace is None or best is None or pace < _NOTABLE_PACE * max(best, fast):
        return 1.0
    return pace / max(best, fast)


def _nearly_best(
    fit: Sequence[Candidate],
    costs: Sequence[float],
    slack: float,
    own: Candidate | None,
    rng: random.Random,
) -> Candidate | None:
    if not fit:
        return None
    limit = min(costs) + slack
    best = [candidate for candidate, cost in zip(fit, costs, strict=True) if cost <= limit]
    if any(candidate is own for candidate in best):
        return own
    return best[int(rng.random() * len(best))]
