"""Bodies about the catalogue."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from inference.contracts.bodies.body import Body
from inference.contracts.models import ModelShape


class ModelBody(Body, frozen=True, kw_only=True):
    """name: up to 100 letters, digits, dots, dashes, underscores.

    path: a directory as the nodes see it, a hub id, or the address of an archive or directory. It need not exist on the
    control host: a node that can't load it says so when a worker starts. revision: of a hub id.
    config: content of the model's config.json, for a model whose files the control plane can't read; or shape: what it
    is made of. Left out, both are read from its files, here or on the first node that has them.
    """

    name: str
    path: str
    description: str = ""
    revision: str = ""
    licence: str = ""
    config: dict[str, Any] | None = None
    shape: ModelShape | None = None


class ModelChangeBody(Body, frozen=True, kw_only=True):
    """What is left out stays as it is. shape: null forgets what is known, and has it read again."""

    path: str | None = None
    description: str | None = None
    revision: str | None = None
    licence: str | None = None
    config: dict[str, Any] | None = None
    shape: ModelShape | msgspec.UnsetType | None = msgspec.UNSET


class FetchBody(Body, frozen=True, kw_only=True):
    """nodes: ids of those that shall have the weights. revision: of a hub id, instead of the model's own."""

    nodes: tuple[UUID, ...]
    revision: str | None = None
    reason: str = ""
