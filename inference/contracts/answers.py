"""What REST answers where that is more than one view: pages of lists, and what was changed with its operation."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from inference.contracts.rollout import RolloutPolicy
from inference.contracts.views.fleet import NodeView
from inference.contracts.views.operations import OperationView
from inference.contracts.views.pools import DeploymentView, PoolView, RolloutView

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list. next: the cursor of the page after this one; None: this is the last."""

    items: tuple[T, ...]
    next: str | None


class DeploymentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    deployment: DeploymentView
    operation: OperationView


class OperationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    operation: OperationView


class PoolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """operation: None when the pool has that size already and nothing is under way."""

    pool: PoolView
    operation: OperationView | None


class RolloutAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """rollout: None while none is under way."""

    policy: RolloutPolicy
    rollout: RolloutView | None


class NodeOperationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    node: NodeView
    operation: OperationView


class MeasureAnswer(msgspec.Struct, frozen=True, kw_only=True):
    operation: OperationView


class FetchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    operation: OperationView
