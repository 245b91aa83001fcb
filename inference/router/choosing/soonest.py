"""When the first token of a request could come at the soonest, for a client that names a deadline."""

from __future__ import annotations

from inference.contracts.states import Role
from inference.router.choosing.ask import Ask, Standings
from inference.router.choosing.roster import Candidate, Roster
from inference.router.choosing.split import local_threshold
from inference.router.choosing.standing import UNKNOWN


def soonest_ttft_s(roster: Roster, standings: Standings, ask: Ask) -> float | None:
    """In seconds, at any worker that might read the prompt; None when the pace of one of them is unknown."""
    readers = [candidate for choices in roster.prefill.values() for candidate in choices.workers]
    readers += [each for each in roster.answering.workers if _may_read(each, roster, standings, ask)]
    soonest: float | None = None
    for candidate in readers:
        seconds = standings.get(candidate.key, UNKNOWN).predicted_ttft_s(_lacking(candidate, ask))
        if seconds is None:
            return None
        soonest = seconds if soonest is None else min(soonest, seconds)
    return soonest


def _may_read(candidate: Candidate, roster: Roster, standings: Standings, ask: Ask) -> bool:
    """Whether `decide_split` might leave the prompt to this answering worker."""
    if candidate.route.role is Role.UNIFIED:
        return True
    here, deployment = standings.get(candidate.key, UNKNOWN), roster.deployment
    threshold = local_threshold(
        deployment.local_prefill_tokens,
        automatic=deployment.policy.local_prefill_auto,
        here=here,
        itl_target_s=deployment.itl_target_s,
    )
    steps_in = bool(threshold) and not here.running and here.reading.each_s is not None
    return _lacking(candidate, ask) <= threshold or steps_in


def _lacking(candidate: Candidate, ask: Ask) -> int:
    return max(0, ask.prompt_tokens - ask.held.get(candidate.key, 0))
