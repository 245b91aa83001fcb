"""Bodies about deployments, their revisions and pools."""

from __future__ import annotations

import msgspec

from inference.contracts.bodies.body import Body
from inference.contracts.engines import NATIVE
from inference.contracts.rollout import RolloutPolicy
from inference.contracts.routing_policy import RoutingPolicy
from inference.contracts.specs import EngineSettings


class DeploymentBody(Body, frozen=True, kw_only=True):
    """prefill, decode: workers of each stage; or unified: workers that do both, alone.

    model_revision: of a hub id; empty: its default. local_prefill_tokens: prompts with at most this many uncached
    tokens are read by the decode worker itself. tensor_parallel: devices of each worker. strategy: "spread" or "pack".
    labels: what devices (or their nodes) must have; prefill_labels, decode_labels: of one stage, instead.
    slo_ttft_s, slo_tpot_s: what is promised of each request. policy: how revisions are rolled out. routing: how
    requests find their workers.
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
    routing: RoutingPolicy = RoutingPolicy()
    reason: str = ""


class DeploymentChangeBody(Body, frozen=True, kw_only=True):
    """What is left out stays as it is. slo_ttft_s, slo_tpot_s: null promises nothing."""

    local_prefill_tokens: int | None = None
    slo_ttft_s: float | msgspec.UnsetType | None = msgspec.UNSET
    slo_tpot_s: float | msgspec.UnsetType | None = msgspec.UNSET
    policy: RolloutPolicy | None = None
    routing: RoutingPolicy | None = None
    reason: str = ""


class PoolBody(Body, frozen=True, kw_only=True):
    """generation: of the pool as you saw it. What is left out stays as it is. min_replicas, max_replicas: have to allow
    the present size, and replicas, too. labels, strategy: count for workers that are yet to start."""

    generation: int
    replicas: int | msgspec.UnsetType = msgspec.UNSET
    min_replicas: int | msgspec.UnsetType = msgspec.UNSET
    max_replicas: int | msgspec.UnsetType = msgspec.UNSET
    labels: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    strategy: str | msgspec.UnsetType = msgspec.UNSET
    reason: str = ""


class RebalanceBody(Body, frozen=True, kw_only=True):
    """prefill, decode: workers that each pool shall have. prefill_generation, decode_generation: of the pools as you
    saw them."""

    prefill: int
    decode: int
    prefill_generation: int
    decode_generation: int
    reason: str = ""


class RollOutBody(Body, frozen=True, kw_only=True):
    """What is left out stays as it is in the revision that serves; settings are given whole. note: what is new, for
    people. policy: also for later roll-outs."""

    model: str | None = None
    model_revision: str | None = None
    settings: EngineSettings | None = None
    policy: RolloutPolicy | None = None
    note: str = ""
    reason: str = ""


class RollBackBody(Body, frozen=True, kw_only=True):
    """to: number of the revision; left out: the one that serves while a roll-out is under way, else the one before."""

    to: int | None = None
    reason: str = ""
