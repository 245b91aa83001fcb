"""How a roll-out goes on, and when it goes back by itself."""

from __future__ import annotations

import msgspec

from controlplane.core.errors import Invalid

_LONGEST_S = 7 * 24 * 3600.0


class RolloutPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """step: share of each pool's workers that is changed at a time, above 0 up to 1; None changes one prefill and one
    decode worker at a time. observe_s: seconds for which a step must be well before the next. max_error_rate,
    max_slo_miss_rate: beyond these shares of its requests the candidate is taken back. min_requests: fewer than this,
    since the roll-out began, say nothing yet: the step waits for more. quiet_s: but not longer than this; then the few
    that came are judged, and if none came at all the step goes on, since nobody is there to be harmed.
    step_deadline_s: a step that is not through after so many seconds ends the roll-out."""

    step: float | None = None
    observe_s: float = 30.0
    max_error_rate: float = 0.05
    max_slo_miss_rate: float = 0.2
    min_requests: int = 20
    quiet_s: float = 300.0
    step_deadline_s: float = 3600.0


def policy_check(policy: RolloutPolicy) -> None:
    """
    Raises:
        Invalid: a value that can't be right; `field` is "policy.<name>".
    """
    if policy.step is not None and not 0 < policy.step <= 1:
        raise _invalid("step", f"step is above 0 and at most 1, not {policy.step:g}; without it, one pair at a time.")
    for name in ("max_error_rate", "max_slo_miss_rate"):
        if not 0 <= getattr(policy, name) <= 1:
            raise _invalid(name, f"{name} is 0 to 1, not {getattr(policy, name):g}.")
    for name, least in (("observe_s", 0.0), ("quiet_s", 0.0), ("step_deadline_s", 1.0)):
        if not least <= getattr(policy, name) <= _LONGEST_S:
            raise _invalid(name, f"{name} is {least:g} to {_LONGEST_S:g} seconds, not {getattr(policy, name):g}.")
    if not 0 <= policy.min_requests <= 1_000_000:
        raise _invalid("min_requests", f"min_requests is 0 to 1000000, not {policy.min_requests}.")


def _invalid(name: str, sentence: str) -> Invalid:
    return Invalid(sentence, code="invalid_policy", field=f"policy.{name}")
