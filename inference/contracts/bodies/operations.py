"""Bodies about operations."""

from __future__ import annotations

from inference.contracts.bodies.body import Body


class ReasonBody(Body, frozen=True, kw_only=True):
    """reason: for the record and the audit trail; at most 500 characters."""

    reason: str = ""
