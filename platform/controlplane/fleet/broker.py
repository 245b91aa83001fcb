"""Each node's own user at the Redis server: it may take from its own queue, append to ours, and nothing else.

Users are made when a node joins or says hello, and again by the sweep: Redis keeps them in memory only. Where the
server has no ACL, or does not let us use it, nodes share our address, which is logged and shown with each node;
TANDEM_REQUIRE_SCOPED_NODES refuses them instead.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import UUID

import redis
import structlog
from django.conf import settings

from controlplane.core.errors import Conflict
from controlplane.core.redis import sync_client
from controlplane.fleet.credentials import broker_password
from controlplane.fleet.models import Node
from inference.contracts import names
from inference.contracts.states import NodeDesired

log = structlog.get_logger()

#: What Celery's consumer and the agent's own connections send; found by watching a real agent.
_COMMANDS = (
    *("ping", "select", "client|setinfo", "client|setname", "brpop", "lpush", "llen"),
    *("sadd", "xadd", "expire", "multi", "exec"),
)

#: Redis key: digest of the rules that the users were written with. When they change, all users are written again.
_RULES_KEY = "tandem:node-rules"


class Access(StrEnum):
    """SCOPED: every node has a user of its own. SHARED: this server gives none, so nodes use our address.
    UNKNOWN: Redis is away; the sweep will see to it."""

    SCOPED = "scoped"
    SHARED = "shared"
    UNKNOWN = "unknown"


def user_name(node_id: UUID | str) -> str:
    return f"node-{node_id}"


def node_access(node: Node) -> Access:
    """Make sure that the node's user is there.

    Raises:
        Conflict: the server gives no users, and nodes must have one.
    """
    access = _written([node.pk])
    if access == Access.SHARED and settings.REQUIRE_SCOPED_NODES:
        raise Conflict(
            "The Redis server lets us make no user for this node, and TANDEM_REQUIRE_SCOPED_NODES demands one. Use a "
            "server with ACL (Redis 7, Valkey) and give the control plane a user that may change it.",
            code="no_scoped_credentials",
        )
    return access


def node_url(node: Node) -> str:
    """The address of Redis for this node, with the credentials that it is to use."""
    if not node.scoped:
        return settings.NODE_REDIS_URL
    parts = urlsplit(settings.NODE_REDIS_URL)
    place = parts.netloc.rpartition("@")[2]
    user = f"{quote(user_name(node.pk))}:{broker_password(node.pk)}"
    return urlunsplit(parts._replace(netloc=f"{user}@{place}"))


def credentials_ensure() -> None:
    """For the sweep: give every node that shall have one its user again, and take those of retired nodes away."""
    scoped = Node.objects.filter(scoped=True).values_list("pk", "desired")
    retired = {pk for pk, desired in scoped if desired == NodeDesired.RETIRED}
    wanted = {pk for pk, _ in scoped} - retired
    try:
        rules = _rules_digest().encode()
        known = {name.decode() for name in _redis().execute_command("ACL", "USERS")}
        current = sync_client().get(_RULES_KEY) == rules
        missing = [pk for pk in wanted if not current or user_name(pk) not in known]
        if missing and _written(missing) == Access.SCOPED:
            sync_client().set(_RULES_KEY, rules)
            log.info("users of nodes made at the Redis server", users=len(missing))
        _delete(known & {user_name(pk) for pk in retired})
    except redis.RedisError as error:
        log.log(logging.WARNING if wanted else logging.DEBUG, "users of nodes not checked", error=str(error))


def credentials_void(node_id: UUID) -> None:
    """Take the node's user away, which also cuts its connections; the sweep does it if Redis is away now."""
    try:
        _delete([user_name(node_id)])
    except redis.RedisError as error:
        log.warning("user of a retired node not removed yet; the sweep will", node=str(node_id), error=str(error))


def _written(node_ids: Iterable[UUID]) -> Access:
    try:
        pipeline = _redis().pipeline(transaction=False)
        for node_id in node_ids:
            pipeline.execute_command("ACL", "SETUSER", user_name(node_id), *_rules(node_id))
        pipeline.execute()
    except redis.ResponseError as error:  # no such command, a rule that it does not know, or not permitted
        log.warning("the Redis server gives nodes no users of their own; they share ours", error=str(error))
        return Access.SHARED
    except redis.RedisError as error:
        log.warning("user of a node not made yet; the sweep will", error=str(error))
        return Access.UNKNOWN
    return Access.SCOPED


def _delete(users: Iterable[str]) -> None:
    if users := sorted(users):
        _redis().execute_command("ACL", "DELUSER", *users)


def _redis() -> Any:
    """Its methods for ACL carry no types."""
    return sync_client()


def _rules(node_id: UUID) -> tuple[str, ...]:
    """reset: whatever the user had before is gone. %W: may append, may not read. The second pattern is where Celery
    keeps messages of other priorities."""
    queue = names.node_queue(str(node_id))
    return (
        *("reset", "on", f">{broker_password(node_id)}", "resetchannels", "-@all"),
        *(f"~{queue}", f"~{queue}\x06\x16*", f"~_kombu.binding.{queue}", f"~_kombu.binding_permanent.{queue}"),
        *(f"%W~{names.CONTROL_QUEUE}", f"%W~{names.WINDOW_STREAM}", f"%W~{names.log_reply_key(f'{node_id}:*')}"),
        *(f"+{command}" for command in _COMMANDS),
    )


def _rules_digest() -> str:
    """Of the rules as such, and of the secret behind the passwords."""
    example = UUID(int=0)
    return hashlib.sha256("\n".join(_rules(example)).encode()).hexdigest()
