"""Whether the answering worker reads the prompt itself."""

from __future__ import annotations

from inference.contracts.routing import WorkerRoute
from inference.contracts.states import PrefillPath, Role
from inference.router.choosing.standing import UNKNOWN, Standing

_CLEARLY_LATER, _LATER_BY_S = 1.5, 0.05


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
    disturbs = here.running > 1  # one of them is this request
    if not threshold_tokens or disturbs or elsewhere is None:
        return PrefillPath.HANDOFF
    here_s, elsewhere_s = here.predicted_ttft_s(uncached_tokens), elsewhere.predicted_ttft_s(lacking_tokens)
    waits = elsewhere.backlog_tokens + elsewhere.others_backlog_tokens > 0
    if here_s is None or elsewhere_s is None or not waits:
        return PrefillPath.HANDOFF
    clearly_later = elsewhere_s > _CLEARLY_LATER * here_s + _LATER_BY_S
    return PrefillPath.LOCAL if clearly_later else PrefillPath.HANDOFF


def local_threshold(fixed_tokens: int, *, automatic: bool, here: Standing, itl_target_s: float | None) -> int:
    """Most uncached tokens that the answering worker reads itself.

    Automatic: as many as it can read beside a step of its answers within the promised time between tokens,
    (target - time of such a step) / time per prompt token. What was not measured yet, or not promised, leaves
    `fixed_tokens`.
    """
    read_s = here.reading.each_s
    if not automatic or itl_target_s is None or read_s is None:
        return fixed_tokens
    beside = here.running - 1  # one of them is this request
    step_s = here.writing.at(beside) if beside > 0 else 0.0
    return fixed_tokens if step_s is None else max(0, int((itl_target_s - step_s) / read_s))
