"""Telemetry as the console draws it: one frame a second. `None` is "not known", never zero."""

from __future__ import annotations

import msgspec

from inference.contracts.states import Role


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, read from merged histograms. `count` samples; None when there were none."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None


class PoolFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One second of one pool. None: no worker reported it in this second. ttft: of first tokens made here; tpot, itl:
    of answers written here. Latencies cover the last ten seconds."""

    pool_id: str
    role: Role
    running: float | None
    waiting: float | None
    waiting_tokens: float | None
    kv_blocks_used: float | None
    kv_blocks_total: float | None
    ttft: Quantiles
    tpot: Quantiles
    itl: Quantiles
    queue: Quantiles
    transfer: Quantiles
    transfer_bytes: int | None
    output_tokens: int | None


class DeploymentFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One second of one deployment. Latencies cover the last ten seconds, so that p99 means something; counters
    cover this second alone, and are None when nobody who counts them was heard in it."""

    deployment: str
    ttft: Quantiles
    tpot: Quantiles
    itl: Quantiles
    first_gap: Quantiles
    e2e: Quantiles
    in_flight: float | None
    received: int | None
    completed: int | None
    failed: int | None
    rejected: int | None
    cancelled: int | None
    handoffs: int | None
    handoff_failures: int | None
    local_prefills: int | None
    prompt_tokens: int | None
    output_tokens: int | None
    pools: tuple[PoolFrame, ...]


class TelemetryFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One second of everything. second: unix seconds."""

    second: int
    deployments: tuple[DeploymentFrame, ...]
