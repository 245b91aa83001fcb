"""How requests of a deployment find their workers, and what is tried for them when one fails."""

from __future__ import annotations

import msgspec

from inference.contracts.states import HandoffFailure


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """The longest waits for workers in seconds, where neither a router nor a deployment has others.

    connect_s: for a connection. reserve_s: for a ticket. first_token_s: of the leg that reads the prompt. idle_s:
    between two events of a leg. total_s: a whole request.
    """

    connect_s: float = 2.0
    reserve_s: float = 10.0
    first_token_s: float = 120.0
    idle_s: float = 60.0
    total_s: float = 1800.0


class RoutingPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """local_prefill_auto: a decode worker reads a prompt itself where it can do so beside its answers within the
    promised TPOT, by its measured pace, and not by the fixed limit; until both are known that counts. handoff_failure:
    what becomes of a request whose KV did not arrive.

    connect_s and so on: the longest waits, as in `Waits`; None: the router's own.
    """

    local_prefill_auto: bool = False
    handoff_failure: HandoffFailure = HandoffFailure.RETRY_PREFILL
    connect_s: float | None = None
    reserve_s: float | None = None
    first_token_s: float | None = None
    idle_s: float | None = None
    total_s: float | None = None
