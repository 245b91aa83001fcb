"""The audit trail."""

from __future__ import annotations

from typing import Any

import msgspec


class AuditEntryView(msgspec.Struct, frozen=True, kw_only=True):
    """One write that went through: who did what to which target, from where, in which request. actor_kind: "user",
    "token", "system" or "anonymous". before, after: the values that the write was about, without secrets; null where it
    has none."""

    id: int
    at: str
    actor: str
    actor_kind: str
    address: str
    request_id: str
    action: str
    target_kind: str
    target_id: str
    target_name: str
    before: Any
    after: Any
    reason: str
