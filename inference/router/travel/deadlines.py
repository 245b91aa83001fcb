"""How long requests of a deployment may wait."""

from __future__ import annotations

import dataclasses

from inference.contracts.routing_policy import RoutingPolicy
from inference.router.config import Deadlines

#: The waits of a policy, and what they are here.
_OURS = {
    "connect_s": "connect_s",
    "reserve_s": "reserve_s",
    "first_token_s": "first_event_s",
    "idle_s": "idle_s",
    "total_s": "total_s",
}


def deadlines_of(policy: RoutingPolicy, default: Deadlines) -> Deadlines:
    """Those of a deployment, where it has some of its own."""
    own = {ours: own for theirs, ours in _OURS.items() if (own := getattr(policy, theirs)) is not None}
    return dataclasses.replace(default, **own) if own else default
