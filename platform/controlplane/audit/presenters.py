"""Audit entries as the API shows them."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.audit.models import AuditEntry
from controlplane.core.clock import iso
from inference.contracts.views.audit import AuditEntryView


def entry_view(entry: AuditEntry) -> AuditEntryView:
    return AuditEntryView(
        id=entry.pk,
        at=iso(entry.at),
        actor=entry.actor,
        actor_kind=entry.actor_kind,
        address=entry.address,
        request_id=entry.request_id,
        action=entry.action,
        target_kind=entry.target_kind,
        target_id=entry.target_id,
        target_name=entry.target_name,
        before=entry.before,
        after=entry.after,
        reason=entry.reason,
    )


def entry_views(entries: Iterable[AuditEntry]) -> list[AuditEntryView]:
    return [entry_view(entry) for entry in entries]
