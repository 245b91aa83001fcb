"""Whether a roll-out can go on as its policy says."""

from __future__ import annotations

from controlplane.core.errors import Invalid
from inference.contracts.rollout import RolloutPolicy

_LONGEST_S = 7 * 24 * 3600.0


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
