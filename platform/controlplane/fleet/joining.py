"""How a machine becomes a node: an operator makes a token, the agent trades it in, once, for all it needs to know."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from uuid import UUID

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction

from controlplane.audit.services import record
from controlplane.core import clock
from controlplane.core.errors import Conflict, Invalid, Unauthenticated
from controlplane.core.locking import locked
from controlplane.fleet.announce import node_announce
from controlplane.fleet.broker import Access, node_access, node_url
from controlplane.fleet.cadence import report_interval_s
from controlplane.fleet.credentials import hello_check, node_key
from controlplane.fleet.inventory import devices_record
from controlplane.fleet.models import JoinToken, Node
from inference.contracts.bounds import JOIN_TOKEN_TTL_S
from inference.contracts.reports import NodeHello, NodeWelcome

log = structlog.get_logger()

LONGEST_TTL_S = 30 * 24 * 3600

_NAME_BASE_MAX = 90
_NAME_ATTEMPTS = 5
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new join token: its row, and the token itself, which nobody can read again."""

    row: JoinToken
    raw: str

    @property
    def command(self) -> str:
        """The one line to run on the new node, in its checkout. The token is no argument: all users see those."""
        run = f".venv/bin/python -m inference.agent run --url {settings.PUBLIC_URL} --data ./agent-data"
        return f"TANDEM_JOIN_TOKEN={self.raw} {run}"


@transaction.atomic
def join_token_create(*, created_by: str, note: str = "", ttl_s: int = JOIN_TOKEN_TTL_S) -> IssuedToken:
    """Make a token with which one machine may join within `ttl_s` seconds.

    Raises:
        Invalid: the life is out of range or the note too long.
    """
    if not 1 <= ttl_s <= LONGEST_TTL_S:
        raise Invalid(f"A join token lives 1 to {LONGEST_TTL_S} seconds, not {ttl_s}.", field="ttl_s")
    if len(note) > 200:
        raise Invalid(f"A note has at most 200 characters; this one has {len(note)}.", field="note")
    raw = f"tandem-join-{secrets.token_urlsafe(32)}"
    now = clock.now()
    row = JoinToken.objects.create(
        digest=_digest(raw), note=note, created_by=created_by, created_at=now, expires_at=now + timedelta(seconds=ttl_s)
    )
    record(
        action="join_token.create",
        target_kind="join_token",
        target_id=row.pk,
        target_name=note or str(row.pk),
        after={"expires_at": clock.iso(row.expires_at)},
    )
    log.info("join token created", token=row.pk, created_by=created_by, ttl_s=ttl_s)
    return IssuedToken(row=row, raw=raw)


def join_token_check(raw: str) -> None:
    """Refuse a token that can't be used, without using it.

    Raises:
        Unauthenticated: unknown, used or expired; the sentence says which and what to do.
    """
    _require_usable(JoinToken.objects.filter(digest=_digest(raw)).first(), clock.now())


@transaction.atomic
def node_join(*, token: str, hello: NodeHello, remote_address: str) -> NodeWelcome:
    """Use `token` up and enter the machine as a node. A machine that was a node before becomes a new one.

    A hello that is refused leaves the token unused. remote_address: where the hello came from, for an agent that does
    not know its own address.

    Raises:
        Unauthenticated: unknown, used or expired token.
        Invalid: the hello can't be right.
        Conflict: nodes must have Redis credentials of their own, and the server gives none.
    """
    now = clock.now()
    # Of two machines with one token, the database lets exactly one through.
    usable = JoinToken.objects.filter(digest=_digest(token), used_at__isnull=True, expires_at__gt=now)
    if usable.update(used_at=now) != 1:
        _require_usable(JoinToken.objects.filter(digest=_digest(token)).first(), now)
    _check(hello)
    node = _node_create(hello, remote_address, now)
    JoinToken.objects.filter(digest=_digest(token)).update(node=node)
    welcome = _admit(node, hello)
    by = JoinToken.objects.get(digest=_digest(token)).created_by
    record(
        action="node.join",
        target_kind="node",
        target_id=node.pk,
        target_name=node.name,
        after={"address": node.address, "devices": len(hello.devices), "join_token_by": by},
    )
    log.info("node joined", node=node.name, address=node.address, devices=len(hello.devices))
    return welcome


@transaction.atomic
def node_hello(*, body: bytes, authorization: str | None, hello: NodeHello) -> NodeWelcome:
    """Answer the hello of a node that has joined: what it needs to know may have changed since.

    body: the hello exactly as it was sent, which `authorization` proves (`credentials.hello_check`). An agent of an
    earlier release, once upgraded, gets its own key and Redis credentials here.

    Raises:
        Unauthenticated: it names no node of ours, proves nothing, or was retired.
        Invalid: the hello can't be right.
        Conflict: nodes must have Redis credentials of their own, and the server gives none.
    """
    node = _said_to_be(hello.node_id)
    # By its own key: only then is it sure that the node has it, since an answer may be lost.
    node.secured = hello_check(node, authorization, body)
    _check(hello)
    node.agent_version = hello.agent_version[:50]
    node.cpu_cores, node.memory_total = hello.cpu_cores, hello.memory_total
    welcome = _admit(node, hello)
    log.info("node says hello", node=node.name, version=node.agent_version, by_own_key=node.secured)
    return welcome


def _said_to_be(node_id: str) -> Node:
    try:
        node = locked(Node.objects).filter(pk=UUID(node_id)).first()
    except ValueError:
        node = None
    if node is None:
        raise Unauthenticated(
            f"There is no node {node_id[:40]!r} here. A machine becomes one with a join token.", code="node_unknown"
        )
    return node


def _admit(node: Node, hello: NodeHello) -> NodeWelcome:
    """Write what the hello says, and give the node its key and its Redis credentials."""
    node.driver = hello.driver[:100]
    node.interfaces, node.engines = list(hello.interfaces), dict(hello.engines)
    # Where Redis is away the sweep makes the user later.
    node.scoped = node_access(node) != Access.SHARED
    node.report_interval_s = report_interval_s()
    node.observed_digest = ""  # the next report is compared with nothing
    node.save()
    devices_record({node: hello.devices})
    node_announce(node.pk)
    return NodeWelcome(
        node_id=str(node.pk),
        name=node.name,
        redis_url=node_url(node),
        cluster_secret=settings.CLUSTER_SECRET,
        report_interval_s=node.report_interval_s,
        node_key=node_key(node.pk),
    )


def _digest(raw: str) -> str:
    return hashlib.sha256(raw.encode()).hexdigest()


def _require_usable(token: JoinToken | None, now: datetime) -> None:
    advice = "Make a new one in the console under Fleet."
    if token is None:
        raise Unauthenticated(f"This join token is unknown. {advice}", code="join_token_unknown")
    if token.used_at is not None:
        raise Unauthenticated(
            f"This join token was used already; each lets one node join. {advice}", code="join_token_used"
        )
    if token.expires_at <= now:
        raise Unauthenticated(
            f"This join token expired at {clock.iso(token.expires_at)}. {advice}", code="join_token_expired"
        )


def _check(hello: NodeHello) -> None:
    if not hello.hostname.strip():
        raise Invalid("A node needs a host name.", field="hostname")
    ids = [device.device_id for device in hello.devices]
    twice = sorted({device_id for device_id in ids if ids.count(device_id) > 1})
    if twice:
        raise Invalid(f"Each device is named once; {', '.join(twice)} came twice.", field="devices")


def _node_create(hello: NodeHello, remote_address: str, now: datetime) -> Node:
    node = Node(
        hostname=hello.hostname.strip()[:255],
        address=(hello.address or remote_address)[:255],
        agent_version=hello.agent_version[:50],
        cpu_cores=hello.cpu_cores,
        memory_total=hello.memory_total,
        joined_at=now,
        secured=True,
    )
    for _ in range(_NAME_ATTEMPTS):
        node.name = _free_name(hello.name or node.hostname)
        try:
            with transaction.atomic():
                node.save(force_insert=True)
            return node
        except IntegrityError:
            log.info("another node took the name at the same moment", name=node.name)
    raise Conflict(f"Too many nodes named {node.hostname!r} join at once; try again.", code="name_taken")


def _free_name(wanted: str) -> str:
    """`wanted` without what would be odd in an address or a table; the second of one name is "name-2"."""
    base = _NOT_IN_A_NAME.sub("-", wanted).strip("-")[:_NAME_BASE_MAX] or "node"
    taken = set(Node.objects.filter(name__startswith=base).values_list("name", flat=True))
    numbered = (base if number == 1 else f"{base}-{number}" for number in count(1))
    return next(name for name in numbered if name not in taken)
