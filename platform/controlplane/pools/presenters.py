"""Deployments, pools and workers as the console sees them (from rows of `selectors.deployment_list`)."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.core.clock import iso
from controlplane.pools.checks.engine import capabilities
from controlplane.pools.models import Deployment, Pool, Revision, Worker
from controlplane.pools.pairing import Peer, conflicts, serves
from controlplane.pools.planning.revisions import candidate_workers
from controlplane.pools.planning.snapshot import PoolSeen
from inference.contracts.states import STARTING_UP, NodePhase, Role, WorkerDesired, WorkerPhase
from inference.contracts.views.pools import DeploymentView, PoolView, RevisionView, RolloutView, WorkerView

#: The newest so many; the rest is asked for by itself.
REVISIONS_SHOWN = 20


def deployment_view(deployment: Deployment) -> DeploymentView:
    pools = list(deployment.pools.all())
    workers = [worker for pool in pools for worker in pool.workers.all()]
    peers = [worker_peer(worker) for worker in workers if worker.desired == WorkerDesired.RUN]
    unpaired = conflicts(peers)
    stable = deployment.stable_revision
    return DeploymentView(
        name=deployment.name,
        model=stable.model.name,
        serving=serves(peers),
        status=_status(deployment, pools, workers, serving=serves(peers), unpaired=unpaired),
        local_prefill_tokens=deployment.local_prefill_tokens,
        settings=stable.engine_settings,
        created_at=iso(deployment.created_at),
        deleting=deployment.deleting,
        pools=tuple(pool_view(pool, unpaired) for pool in pools),
        revision=deployment.stable,
        revisions=tuple(revision_view(each) for each in list(deployment.revisions.all())[-REVISIONS_SHOWN:]),
        rollout=_rollout_view(deployment, pools, workers),
        can_flip=capabilities(deployment.engine).switches_role,
        slo_ttft_s=deployment.slo_ttft_s,
        slo_tpot_s=deployment.slo_tpot_s,
        routing=deployment.routing,
    )


def revision_view(revision: Revision) -> RevisionView:
    return RevisionView(
        number=revision.number,
        model=revision.model.name,
        model_revision=revision.model_revision,
        settings=revision.engine_settings,
        note=revision.note,
        created_by=revision.created_by,
        created_at=iso(revision.created_at),
    )


def _rollout_view(deployment: Deployment, pools: list[Pool], workers: list[Worker]) -> RolloutView | None:
    rollout = deployment.under_rollout
    if rollout is None:
        return None
    seen = [PoolSeen(str(pool.pk), Role(pool.role), pool.replicas) for pool in pools]
    ours = [worker for worker in workers if worker.revision_id == rollout.candidate_id]
    return RolloutView(
        operation_id=str(rollout.operation_id),
        stable=deployment.stable,
        candidate=rollout.candidate.number,
        share=rollout.share,
        wanted=sum(candidate_workers(seen, rollout.share).values()),
        ready=sum(takes_requests(worker) for worker in ours),
        total=sum(pool.replicas for pool in pools),
        requests=rollout.requests,
        error_rate=rollout.error_rate,
        slo_miss_rate=rollout.slo_miss_rate,
        paused=rollout.paused,
    )


def pool_view(pool: Pool, unpaired: Mapping[str, str]) -> PoolView:
    """unpaired: worker id -> why it can't pair, see `pairing.conflicts`."""
    workers = list(pool.workers.all())
    return PoolView(
        id=str(pool.pk),
        deployment=pool.deployment.name,
        role=Role(pool.role),
        replicas=pool.replicas,
        ready=sum(takes_requests(worker) for worker in workers),
        generation=pool.generation,
        min_replicas=pool.min_replicas,
        max_replicas=pool.max_replicas,
        refusals=(
            *pool.refusals.splitlines(),
            *(f"{each.name} {unpaired[str(each.pk)]}" for each in workers if str(each.pk) in unpaired),
        ),
        workers=tuple(worker_view(worker, unpaired.get(str(worker.pk), "")) for worker in workers),
        labels=tuple(pool.labels),
        tensor_parallel=pool.tensor_parallel,
        strategy=pool.strategy,
    )


def worker_view(worker: Worker, conflict: str) -> WorkerView:
    """conflict: why its fingerprint keeps it from pairing; shown where its node has nothing more urgent to say."""
    load = worker.known_load
    return WorkerView(
        id=str(worker.pk),
        name=worker.name,
        pool_id=str(worker.pool_id),
        node_id=str(worker.node_id),
        node_name=worker.node.name,
        role=Role(worker.pool.role),
        desired=WorkerDesired(worker.desired),
        phase=WorkerPhase(worker.phase),
        reason=worker.reason or conflict,
        attempts=worker.attempts,
        next_start_s=worker.next_start_s,
        drain_left_s=worker.drain_left_s,
        device_ids=tuple(allocation.device.device_id for allocation in worker.allocations.all()),
        running=None if load is None else load.running,
        waiting=None if load is None else load.waiting,
        kv_blocks_used=None if load is None else load.kv_blocks_used,
        kv_blocks_total=None if load is None else load.kv_blocks_total,
        handoffs=None if load is None else load.handoffs,
        fingerprint=worker.fingerprint or None,
        log_tail=tuple(worker.log_tail.splitlines()),
        created_at=iso(worker.created_at),
        phase_since=iso(worker.phase_since),
        revision=worker.revision.number,
        observed_role=worker.known_role,
        waiting_tokens=None if load is None else load.waiting_tokens,
        tickets=None if load is None else load.tickets,
        kv_bytes_received=None if load is None else load.kv_bytes_received,
        kv_bytes_sent=None if load is None else load.kv_bytes_sent,
    )


def worker_peer(worker: Worker) -> Peer:
    return Peer(
        str(worker.pk), Role(worker.pool.role), worker.fingerprint, takes_requests(worker), worker.revision.number
    )


def takes_requests(worker: Worker) -> bool:
    return (
        worker.desired == WorkerDesired.RUN
        and worker.phase == WorkerPhase.READY
        and worker.observed_role == worker.pool.role
        and worker.node.phase == NodePhase.READY
    )


def _status(
    deployment: Deployment, pools: list[Pool], workers: list[Worker], *, serving: bool, unpaired: Mapping[str, str]
) -> str:
    """The one sentence under a deployment's name."""
    wanted = sum(pool.replicas for pool in pools)
    ready = sum(takes_requests(worker) for worker in workers)
    empty = [pool.role for pool in pools if pool.replicas == 0]
    last_resort = sum(worker.phase == WorkerPhase.UNKNOWN and worker.http_port is not None for worker in workers)
    failed = [worker.name for worker in workers if worker.phase == WorkerPhase.FAILED]
    died = [
        worker.name
        for worker in workers
        if worker.phase == WorkerPhase.BACKOFF or (worker.phase in STARTING_UP and worker.attempts > 1)
    ]
    if deployment.deleting:
        return f"Being deleted: {len(workers)} left to stop."
    if serving and ready >= wanted:
        return "Serving."
    if serving:
        return f"Serving with {ready} of {wanted} workers."
    if empty:
        return f"Not serving: the {empty[0]} pool has no workers."
    if last_resort:
        return f"Perhaps serving: {ready} of {wanted} workers ready, and routers still try {last_resort} out of sight."
    if failed:
        return f"Not serving: {failed[0]} failed."
    if died:
        return f"Not serving: {died[0]} died and is started again."
    if unpaired:
        return "Not serving: no prefill worker and decode worker have the same fingerprint."
    return f"Starting: {ready} of {wanted} workers ready."
