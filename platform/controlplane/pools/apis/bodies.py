"""What REST reads and answers about deployments, pools and workers, beyond the views of the contracts."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from rest_framework.request import Request

from controlplane.core.api import body
from controlplane.core.errors import Invalid
from controlplane.pools.rollout.policy import RolloutPolicy
from inference.contracts.engines import NATIVE
from inference.contracts.specs import EngineSettings
from inference.contracts.views.operations import OperationView
from inference.contracts.views.pools import DeploymentView, PoolView, RolloutView

T = TypeVar("T")


class DeploymentBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """prefill, decode: workers of each stage; or unified: workers that do both, alone.

    model_revision: of a hub id; empty: its default. local_prefill_tokens: prompts with at most this many uncached
    tokens are read by the decode worker itself. tensor_parallel: devices of each worker. strategy: "spread" or "pack".
    labels: what devices (or their nodes) must have; prefill_labels, decode_labels: of one stage, instead.
    slo_ttft_s, slo_tpot_s: what is promised of each request. policy: how revisions are rolled out.
    """

    name: str
    model: str
    model_revision: str = ""
    engine: str = NATIVE
    prefill: int = 0
    decode: int = 0
    unified: int = 0
    local_prefill_tokens: int | None = None
    settings: EngineSettings = EngineSettings()
    tensor_parallel: int = 1
    strategy: str = "spread"
    labels: tuple[str, ...] = ()
    prefill_labels: tuple[str, ...] | None = None
    decode_labels: tuple[str, ...] | None = None
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None
    policy: RolloutPolicy = RolloutPolicy()
    reason: str = ""


class DeploymentChangeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays as it is. slo_ttft_s, slo_tpot_s: null promises nothing."""

    local_prefill_tokens: int | None = None
    slo_ttft_s: float | msgspec.UnsetType | None = msgspec.UNSET
    slo_tpot_s: float | msgspec.UnsetType | None = msgspec.UNSET
    policy: RolloutPolicy | None = None
    reason: str = ""


class DeploymentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    deployment: DeploymentView
    operation: OperationView


class OperationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    operation: OperationView


class PoolBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """generation: of the pool as you saw it. What is left out stays as it is. min_replicas, max_replicas: have to allow
    the present size, and replicas, too. labels, strategy: count for workers that are yet to start."""

    generation: int
    replicas: int | msgspec.UnsetType = msgspec.UNSET
    min_replicas: int | msgspec.UnsetType = msgspec.UNSET
    max_replicas: int | msgspec.UnsetType = msgspec.UNSET
    labels: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    strategy: str | msgspec.UnsetType = msgspec.UNSET
    reason: str = ""


class PoolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """operation: None when the pool has that size already and nothing is under way."""

    pool: PoolView
    operation: OperationView | None


class RebalanceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """prefill, decode: workers that each pool shall have. prefill_generation, decode_generation: of the pools as you
    saw them."""

    prefill: int
    decode: int
    prefill_generation: int
    decode_generation: int
    reason: str = ""


class RollOutBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays as it is in the revision that serves; settings are given whole. note: what is new, for
    people. policy: also for later roll-outs."""

    model: str | None = None
    model_revision: str | None = None
    settings: EngineSettings | None = None
    policy: RolloutPolicy | None = None
    note: str = ""
    reason: str = ""


class RolloutAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """rollout: None while none is under way."""

    policy: RolloutPolicy
    rollout: RolloutView | None


class RollBackBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """to: number of the revision; left out: the one that serves while a roll-out is under way, else the one before."""

    to: int | None = None
    reason: str = ""


def given(value: T | msgspec.UnsetType) -> T | None:
    """None for what was left out."""
    return None if isinstance(value, msgspec.UnsetType) else value


def refuse_unknown_settings(request: Request) -> None:
    """A misspelt setting must not be dropped; between processes, unknown fields are ignored on purpose.

    Raises:
        Invalid: there is no such setting.
    """
    given = body(request, dict[str, Any]).get("settings") or {}
    unknown = [name for name in given if name not in EngineSettings.__struct_fields__]
    if unknown:
        raise Invalid(
            f"There is no setting {unknown[0]!r}; known are {', '.join(EngineSettings.__struct_fields__)}.",
            code="invalid_setting",
            field=f"settings.{unknown[0]}",
        )
