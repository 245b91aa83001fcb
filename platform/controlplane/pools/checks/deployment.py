"""Whether what is wanted of a deployment as a whole can be right."""

from __future__ import annotations

from controlplane.core.errors import Invalid
from inference.contracts.bounds import LARGEST
from inference.contracts.routing_policy import RoutingPolicy, Waits

_LONGEST_S = 3600.0
_LONGEST_WAIT_S = 24 * 3600.0


def local_prefill_check(tokens: int | None) -> None:
    """
    Raises:
        Invalid: no number of tokens.
    """
    if tokens is not None and not 0 <= tokens <= LARGEST:
        raise Invalid(f"local_prefill_tokens is 0 to {LARGEST}, not {tokens}.", field="local_prefill_tokens")


def routing_check(policy: RoutingPolicy) -> None:
    """
    Raises:
        Invalid: a wait that can't be right; `field` is "routing.<name>".
    """
    for name in Waits.__struct_fields__:
        value = getattr(policy, name)
        if value is not None and not 0 < value <= _LONGEST_WAIT_S:
            raise Invalid(
                f"{name} is above 0 and at most {_LONGEST_WAIT_S:g} seconds, not {value:g}; null is the router's own.",
                field=f"routing.{name}",
            )


def slo_check(**seconds: float | None) -> None:
    """
    Raises:
        Invalid: one of them is no time that a request may take.
    """
    for name, value in seconds.items():
        if value is not None and not 0 < value <= _LONGEST_S:
            raise Invalid(f"{name} is above 0 and at most {_LONGEST_S:g} seconds, not {value:g}.", field=name)
