"""What operators want of nodes and devices: who may be given workers, and under which labels.

Legal moves are those of `NodeDesired`; each says in words why it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from uuid import UUID

import structlog
from django.db import transaction

from controlplane.audit.services import record
from controlplane.core import clock
from controlplane.core.errors import Conflict, Invalid, NotFound
from controlplane.core.locking import locked
from controlplane.fleet.announce import node_announce
from controlplane.fleet.broker import credentials_void
from controlplane.fleet.labels import labels_checked
from controlplane.fleet.links import links_advance
from controlplane.fleet.models import Device, JoinToken, Node
from inference.contracts.states import NodeDesired

log = structlog.get_logger()

#: Who may move where. RETIRED is final.
MOVES: dict[NodeDesired, frozenset[NodeDesired]] = {
    NodeDesired.ACTIVE: frozenset({NodeDesired.CORDONED, NodeDesired.DRAINING, NodeDesired.RETIRED}),
    NodeDesired.CORDONED: frozenset({NodeDesired.ACTIVE, NodeDesired.DRAINING, NodeDesired.RETIRED}),
    NodeDesired.DRAINING: frozenset({NodeDesired.ACTIVE, NodeDesired.CORDONED, NodeDesired.RETIRED}),
    NodeDesired.RETIRED: frozenset(),
}

#: What each wish is called in the audit.
_VERBS = {
    NodeDesired.ACTIVE: "uncordon",
    NodeDesired.CORDONED: "cordon",
    NodeDesired.DRAINING: "drain",
    NodeDesired.RETIRED: "retire",
}


@transaction.atomic
def node_desire(node_id: UUID, desired: NodeDesired, *, reason: str = "") -> Node:
    """Want the node to be `desired` from now on. Wanting what is wanted already changes the reason only.

    Raises:
        NotFound: there is no such node.
        Conflict: this move is not legal.
    """
    node = _locked(node_id)
    before = NodeDesired(node.desired)
    if before == NodeDesired.RETIRED and desired != before:
        raise Conflict(
            f"{node.name} was retired, which is final. The machine may join again, as a new node.", code="node_retired"
        )
    if desired not in MOVES[before] and desired != before:
        raise Conflict(f"{node.name} is {before} and can't become {desired}.", code="illegal_move")
    node.desired = desired
    node.cordon_reason = "" if desired == NodeDesired.ACTIVE else reason
    node.save(update_fields=["desired", "cordon_reason"])
    _audit(node, _VERBS[desired], {"desired": before}, {"desired": desired}, reason)
    log.info("node desired", node=node.name, before=before, desired=desired, reason=reason)
    node_announce(node.pk)
    return node


@transaction.atomic
def node_retire(node_id: UUID, *, reason: str = "") -> Node:
    """Let go of the node for good: its credentials are void and its reports are ignored from now on. What it ran is for
    the caller to write off.

    Raises:
        NotFound: there is no such node.
    """
    node = node_desire(node_id, NodeDesired.RETIRED, reason=reason)
    if node.retired_at is None:
        node.retired_at = clock.now()
        node.save(update_fields=["retired_at"])
        transaction.on_commit(partial(links_advance, now=node.retired_at), robust=True)
        transaction.on_commit(partial(credentials_void, node.pk))
    return node


@transaction.atomic
def node_label(node_id: UUID, labels: Sequence[str]) -> Node:
    """
    Raises:
        NotFound: there is no such node.
        Invalid: something is no label, or there are too many.
    """
    node = _locked(node_id)
    before, node.labels = node.labels, labels_checked(labels)
    node.save(update_fields=["labels"])
    _audit(node, "label", {"labels": before}, {"labels": node.labels})
    node_announce(node.pk)
    return node


@transaction.atomic
def device_change(
    device_id: int,
    *,
    labels: Sequence[str] | None = None,
    maintenance: bool | None = None,
    maintenance_note: str | None = None,
    reserved_for: str | None = None,
) -> Device:
    """Change what is given; None leaves a value as it is. A worker that holds the device keeps it.

    reserved_for: name of the only deployment that may have the device from now on; empty: all.

    Raises:
        NotFound: there is no such device.
        Invalid: something is no label, or too long.
    """
    device = locked(Device.objects.select_related("node"), of=["self"]).filter(pk=device_id).first()
    if device is None:
        raise NotFound("device", str(device_id))
    before = _wanted(device)
    if labels is not None:
        device.labels = labels_checked(labels)
    if maintenance is not None:
        device.maintenance = maintenance
        device.maintenance_note = device.maintenance_note if maintenance else ""
    if maintenance_note is not None:
        device.maintenance_note = _short(maintenance_note, 500, "maintenance_note")
    if reserved_for is not None:
        device.reserved_for = _short(reserved_for, 100, "reserved_for")
    device.save(update_fields=list(before))
    record(
        action="device.change",
        target_kind="device",
        target_id=device.pk,
        target_name=f"{device.node.name}/{device.device_id}",
        before=before,
        after=_wanted(device),
    )
    node_announce(device.node_id)
    return device


@transaction.atomic
def device_forget(device_id: int) -> None:
    """Drop the row of a device that its node no longer has.

    Raises:
        NotFound: there is no such device.
        Conflict: it is reported, or a worker holds it.
    """
    device = locked(Device.objects.select_related("node"), of=["self"]).filter(pk=device_id).first()
    if device is None:
        raise NotFound("device", str(device_id))
    name = f"{device.node.name}/{device.device_id}"
    if not device.missing:
        raise Conflict(f"{name} is there: its node reports it.", code="device_present")
    if Device.objects.filter(pk=device.pk, allocation__isnull=False).exists():
        raise Conflict(f"A worker holds {name}; it can be forgotten when that is gone.", code="device_held")
    record(action="device.forget", target_kind="device", target_id=device.pk, target_name=name, before=_wanted(device))
    device.delete()
    node_announce(device.node_id)


@transaction.atomic
def join_token_revoke(token_id: int) -> None:
    """Make an open token useless.

    Raises:
        NotFound: there is no such token, or it was used or has expired.
    """
    open_tokens = JoinToken.objects.filter(used_at__isnull=True, expires_at__gt=clock.now())
    token = locked(open_tokens).filter(pk=token_id).first()
    if token is None:
        raise NotFound("open join token", str(token_id))
    record(
        action="join_token.revoke",
        target_kind="join_token",
        target_id=token.pk,
        target_name=token.note or str(token.pk),
        before={"expires_at": clock.iso(token.expires_at), "created_by": token.created_by},
    )
    token.delete()
    log.info("join token revoked", token=token_id)


def _locked(node_id: UUID) -> Node:
    node = locked(Node.objects).filter(pk=node_id).first()
    if node is None:
        raise NotFound("node", str(node_id))
    return node


def _short(text: str, limit: int, field: str) -> str:
    if len(text) > limit:
        raise Invalid(f"At most {limit} characters fit; there are {len(text)}.", field=field)
    return text


def _wanted(device: Device) -> dict[str, object]:
    columns = ("labels", "maintenance", "maintenance_note", "reserved_for")
    return {column: getattr(device, column) for column in columns}


def _audit(node: Node, verb: str, before: dict[str, object], after: dict[str, object], reason: str = "") -> None:
    record(
        action=f"node.{verb}",
        target_kind="node",
        target_id=node.pk,
        target_name=node.name,
        before=before,
        after=after,
        reason=reason,
    )
