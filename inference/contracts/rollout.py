"""How a roll-out goes on, and when it goes back by itself."""

from __future__ import annotations

import msgspec


class RolloutPolicy(msgspec.Struct, frozen=True, kw_only=True):
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
