"""What a node and the control plane prove to each other with: a key of their own, derived and stored nowhere.

The secret behind all keys is known to the control plane alone. So nodes can't pass for each other, and holding the
broker means neither telling nodes what to run nor reporting in their name.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from uuid import UUID

import structlog
from django.conf import settings

from controlplane.core.errors import Unauthenticated
from controlplane.fleet.models import Node
from inference.contracts import auth, codec, names
from inference.contracts.reports import NodeReport
from inference.contracts.states import NodeDesired

log = structlog.get_logger()

_dropped = count(1)


def node_key(node_id: UUID | str) -> str:
    """The key of the messages between this node and the control plane (hex)."""
    return _derive("message-key", node_id)


def broker_password(node_id: UUID | str) -> str:
    """The password of the node's own broker user (hex). Another one than its key, since the broker learns it."""
    return _derive("broker-password", node_id)


def _derive(purpose: str, node_id: UUID | str) -> str:
    message = f"tandem:{purpose}:{node_id}".encode()
    return hmac.new(settings.NODE_SECRET.encode(), message, hashlib.sha256).hexdigest()


def message_args(node: Node, task: str, message: str) -> tuple[str, ...]:
    """Arguments of a task for the node: `message` and its code. A node of an earlier release has no key yet and takes
    the message alone."""
    if not node.secured:
        return (message,)
    return message, auth.sign_message(node_key(node.pk), task, message)


@dataclass(frozen=True, slots=True)
class Received:
    """A report that comes from the node that it names. at: when it arrived, by our clock. signed: with a right code."""

    report: NodeReport
    at: datetime
    signed: bool = False


def report_read(encoded: str, code: str, *, at: datetime) -> Received | None:
    """The report, if it can be read and comes from the node that it names; None, with a line in the log, if not.

    A report without a code is taken only from a node that never proved that it has its key.
    """
    try:
        report = codec.decode(encoded, NodeReport)
    except codec.CodecError as error:
        log.warning("node report not readable", error=str(error))
        return None
    if code:
        genuine = auth.verify_message(node_key(report.node_id), names.TASK_RECORD_NODE_REPORT, encoded, code)
    else:
        genuine = not _is_secured(report.node_id)
    if not genuine:
        fault = "wrong code" if code else "no code"
        log.warning("node report dropped", node=report.node_id, fault=fault, dropped_so_far=next(_dropped))
        return None
    return Received(report, at, signed=bool(code))


def _is_secured(node_id: str) -> bool:
    try:
        return Node.objects.filter(pk=UUID(node_id), secured=True).exists()
    except ValueError:
        return False  # of no node of ours, which is for the recorder to say


def hello_check(node: Node, authorization: str | None, body: bytes) -> bool:
    """Refuse a hello that does not come from `node`; whether it was proved by the node's own key.

    The cluster secret will do while the node has never used its own key, so that agents of an earlier release get one.

    Raises:
        Unauthenticated: it proves nothing, or the node was retired.
    """
    if node.desired == NodeDesired.RETIRED:
        raise Unauthenticated(
            f"{node.name} was retired, so its credentials are void. Give it a new data folder and a new join token.",
            code=auth.CODE_NODE_RETIRED,
        )
    if auth.is_node_authorization(authorization, node_key(node.pk), body):
        return True
    by_cluster = auth.is_bearer(authorization, settings.CLUSTER_SECRET, auth.PURPOSE_NODE_HELLO)
    if by_cluster and not node.secured:
        return False
    advice = "It has a key of its own and must use that." if by_cluster else "Its data folder may be another node's."
    raise Unauthenticated(f"This hello does not prove that it comes from {node.name}. {advice}", code="hello_unproven")
