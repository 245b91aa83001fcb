"""Writing the audit trail."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from django.db import models, transaction

from controlplane.audit.models import AuditEntry
from controlplane.core import clock, principal
from controlplane.core.secrecy import masked


def record(
    *,
    action: str,
    target_kind: str,
    target_id: object,
    target_name: str,
    before: Any = None,
    after: Any = None,
    reason: str = "",
) -> AuditEntry:
    """Add one entry in the transaction of the write that it tells of: both are stored, or neither.

    Who did it, from where and in which request comes from `core.principal.current()`.

    action: "<kind>.<verb>" ("pool.resize"). before, after: the values that the write is about, as JSON values or
    structs; whatever looks like a secret is masked.

    Raises:
        RuntimeError: called outside of a transaction.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError(f"{action} is recorded outside of the transaction that does it")
    by = principal.current()
    return AuditEntry.objects.create(
        at=clock.now(),
        actor=_cut("actor", by.name),
        actor_kind=by.kind,
        address=_cut("address", by.address),
        request_id=_cut("request_id", by.request_id),
        action=action,
        target_kind=target_kind,
        target_id=_cut("target_id", str(target_id)),
        target_name=_cut("target_name", target_name),
        before=masked(msgspec.to_builtins(before)),
        after=masked(msgspec.to_builtins(after)),
        reason=masked(reason),
    )


def _cut(column: str, text: str) -> str:
    """An entry with a shortened name is worth more than a write that fails for the sake of its entry."""
    return text[: cast("models.CharField[str, str]", AuditEntry._meta.get_field(column)).max_length]
