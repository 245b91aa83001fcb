"""Bodies about nodes, their devices, the network between them, and how machines join."""

from __future__ import annotations

from uuid import UUID

from inference.contracts.bodies.body import Body
from inference.contracts.bounds import JOIN_TOKEN_TTL_S


class NodeBody(Body, frozen=True, kw_only=True):
    """labels: all that the node shall have ("rack=r7", "fast"), for placement."""

    labels: tuple[str, ...]


class NodeReasonBody(Body, frozen=True, kw_only=True):
    """reason: why, for people; shown with the node and its operation."""

    reason: str = ""


class DeviceBody(Body, frozen=True, kw_only=True):
    """What is not given stays. maintenance: no worker is placed here; one that runs stays. reserved_for: name of the
    only deployment that may have it; empty: all."""

    labels: tuple[str, ...] | None = None
    maintenance: bool | None = None
    maintenance_note: str | None = None
    reserved_for: str | None = None


class MeasureBody(Body, frozen=True, kw_only=True):
    """nodes: ids of the nodes between which the network is to be measured, both ways."""

    nodes: tuple[UUID, ...]
    reason: str = ""


class JoinTokenBody(Body, frozen=True, kw_only=True):
    """note: what the token is for, in words. ttl_s: seconds it can be used."""

    note: str = ""
    ttl_s: int = JOIN_TOKEN_TTL_S
