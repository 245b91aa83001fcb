"""Seconds of telemetry: a load that comes in waves, with bursts and quiet times."""

from __future__ import annotations

import math
import random

from frontend.testing.scene.measures import BLOCKS
from inference.contracts.frames import DeploymentFrame, PoolFrame, Quantiles, TelemetryFrame
from inference.contracts.states import Role
from inference.contracts.views.pools import DeploymentView, PoolView


def frame(second: int, current: list[DeploymentView]) -> TelemetryFrame:
    return TelemetryFrame(second=second, deployments=tuple(_deployment_frame(second, one) for one in current))


def _deployment_frame(second: int, deployment: DeploymentView) -> DeploymentFrame:
    quiet = second % 300 < 45
    wave = 0.5 + 0.4 * math.sin(second / 37) + random.random() * 0.15
    burst = 1.0 + 2.5 * math.exp(-(((second % 170) - 85) ** 2) / 300)
    decode = max(1, sum(group.ready for group in deployment.pools if group.role == Role.DECODE))
    load = 0.0 if quiet else wave * burst
    return DeploymentFrame(
        deployment=deployment.name,
        ttft=_quantiles(quiet, 0.085 * burst + 0.03 * wave, 2.4),
        tpot=_quantiles(quiet, (0.021 + 0.006 * wave) / math.sqrt(decode), 1.5),
        itl=_quantiles(quiet, 0.020 + 0.004 * wave, 2.2),
        first_gap=_quantiles(quiet, 0.034 + 0.01 * wave * burst, 2.0),
        e2e=_quantiles(quiet, 1.8, 2.0),
        in_flight=round(6 * load),
        received=round(3 * load),
        completed=round(3 * load),
        failed=int(not quiet and random.random() < 0.01),
        rejected=0,
        cancelled=0,
        handoffs=round(2 * load),
        handoff_failures=0,
        local_prefills=round(load),
        prompt_tokens=round(900 * load),
        output_tokens=round(150 * load),
        pools=tuple(_pool_frame(group, load, quiet) for group in deployment.pools),
    )


def _pool_frame(group: PoolView, load: float, quiet: bool) -> PoolFrame:
    prefill = group.role == Role.PREFILL
    return PoolFrame(
        pool_id=group.id,
        role=group.role,
        running=round(min(2.0, load)) if prefill else round(5 * load),
        waiting=round(max(0.0, 2.2 * load - 1.2)) if prefill else 0,
        waiting_tokens=round(max(0.0, 2.2 * load - 1.2)) * 512 if prefill else 0,
        kv_blocks_used=round(BLOCKS * min(0.97, 0.08 + 0.22 * load)),
        kv_blocks_total=BLOCKS,
        ttft=_quantiles(quiet or not prefill, 0.085 + 0.03 * load, 2.4),
        tpot=_quantiles(quiet or prefill, 0.021 + 0.006 * load, 1.5),
        itl=_quantiles(quiet or prefill, 0.020 + 0.004 * load, 2.2),
        queue=_quantiles(quiet, 0.01 * load + 1e-4, 2.0),
        transfer=_quantiles(quiet or not prefill, 0.012, 1.8),
        transfer_bytes=round(2 * load) * 512 * 23040,
        output_tokens=round(150 * load),
    )


def _quantiles(none: bool, p50: float, spread: float) -> Quantiles:
    if none:
        return Quantiles(count=0, p50=None, p95=None, p99=None)
    noisy = p50 * random.uniform(0.95, 1.05)
    return Quantiles(count=30, p50=noisy, p95=noisy * spread * 0.8, p99=noisy * spread * random.uniform(1.0, 1.15))
