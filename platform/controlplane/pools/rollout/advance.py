"""Moving a roll-out on: what `steps.decide` says of the present state, written into rows."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import structlog

from controlplane.core import clock
from controlplane.pools import seeing, selectors
from controlplane.pools.models import Deployment, Revision, Rollout
from controlplane.pools.rollout.health import Health, health_of
from controlplane.pools.rollout.steps import Decision, Promote, RolloutSeen, Step, TakeBack, Wait, decide
from controlplane.telemetry.selectors import revision_window

log = structlog.get_logger()


def rollout_begin(deployment: Deployment, candidate: Revision, *, operation_id: UUID, judged: bool) -> None:
    """Want `candidate` instead of the stable revision: step by step when `judged`, else everywhere at once. One that
    was under way gives way. The caller has locked the deployment."""
    now = clock.now()
    Rollout.objects.update_or_create(
        deployment=deployment,
        defaults={
            "candidate": candidate,
            "operation_id": operation_id,
            "share": 0.0 if judged else 1.0,
            "judged": judged,
            "paused": False,
            "started_at": now,
            "step_at": now,
            "ready_at": None,
            "requests": 0,
            "error_rate": None,
            "slo_miss_rate": None,
        },
    )


def rollout_drop(deployment: Deployment) -> bool:
    """Want the stable revision everywhere again; whether a roll-out was under way."""
    return Rollout.objects.filter(deployment=deployment).delete()[0] > 0


@dataclass(frozen=True, slots=True)
class Moved:
    """decision: None when there is no roll-out. news: whether consoles see something new of it."""

    decision: Decision | None = None
    news: bool = False


def rollout_advance(deployment: Deployment) -> Moved:
    """Look at the roll-out and move it on by as much as can be decided now. The caller has locked the deployment.
    Whoever shows the operation tells the decision."""
    rollout = selectors.rollout_of(deployment)
    if rollout is None or deployment.deleting:
        return Moved()
    now = clock.now()
    health = _health(deployment, rollout)
    seen = RolloutSeen(
        candidate=rollout.candidate.number,
        share=rollout.share,
        judged=rollout.judged,
        paused=rollout.paused,
        step_at=rollout.step_at,
        ready_at=rollout.ready_at,
    )
    pools, workers = seeing.pools_seen(deployment), seeing.workers_seen(deployment)
    decision = decide(seen, pools, workers, health, deployment.policy, now)
    counted = (health.requests, health.error_rate, health.slo_miss_rate)
    news = counted != (rollout.requests, rollout.error_rate, rollout.slo_miss_rate)
    rollout.requests, rollout.error_rate, rollout.slo_miss_rate = counted
    match decision:
        case Wait(ready=ready):
            if news or ready != (rollout.ready_at is not None):
                rollout.ready_at = (rollout.ready_at or now) if ready else None
                rollout.save()
            return Moved(decision, news)
        case Step(share=share):
            log.info("roll-out goes on", deployment=deployment.name, share=share)
            rollout.share, rollout.step_at, rollout.ready_at = share, now, None
            rollout.save()
        case Promote():
            _promote(deployment, rollout)
        case TakeBack(why=why):
            log.warning("roll-out is taken back", deployment=deployment.name, reason=why)
            rollout.delete()
    return Moved(decision, news=True)


def _health(deployment: Deployment, rollout: Rollout) -> Health:
    if not rollout.judged or not rollout.share:
        return Health()
    window = revision_window(deployment.name, rollout.candidate.number, since=rollout.started_at)
    return health_of(window, slo_ttft_s=deployment.slo_ttft_s, slo_tpot_s=deployment.slo_tpot_s)


def _promote(deployment: Deployment, rollout: Rollout) -> None:
    log.info("revision promoted", deployment=deployment.name, revision=rollout.candidate.number)
    deployment.previous, deployment.stable = deployment.stable, rollout.candidate.number
    deployment.save(update_fields=["previous", "stable"])
    rollout.delete()
