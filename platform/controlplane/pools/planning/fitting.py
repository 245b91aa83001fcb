"""What should be known before a start about the memory that workers will need. Pure.

GPUs that are too small are not chosen, which the plan itself sees to. CPU slots share the memory of their machine, and
a worker may take more than its share: so that is counted by node, and told.
"""

from __future__ import annotations

from controlplane.pools.planning.scene import Scene, count
from controlplane.pools.planning.snapshot import Snapshot
from inference.contracts.states import DeviceKind


def memory_warnings(first: Snapshot, last: Snapshot) -> list[str]:
    """Of a course from `first` to `last`: what may not fit, and what nobody can tell. Nothing where nothing starts."""
    known = {worker.worker_id for worker in first.workers}
    born = [worker for worker in last.workers if worker.worker_id not in known]
    kinds = _kinds(last)
    on_gpus = {worker.pool_id for worker in born if kinds.get(worker.worker_id) == DeviceKind.GPU}
    slots = {worker.node for worker in born if kinds.get(worker.worker_id) == DeviceKind.CPU}
    return [*_unknown(last, on_gpus), *_crowded(last, slots)]


def _kinds(state: Snapshot) -> dict[str, DeviceKind]:
    return {device.held_by: device.kind for device in state.devices if device.held_by is not None}


def _unknown(state: Snapshot, pool_ids: set[str]) -> list[str]:
    roles = [pool.role for pool in state.pools if pool.pool_id in pool_ids and pool.bytes_needed is None]
    if not roles:
        return []
    workers = f"{' and '.join(roles)} workers"
    return [
        f"Nobody can tell whether {workers} fit into the memory of their GPUs, since the model's size is not known. "
        "Fetch its weights to a node, or give its config.json, to have this checked."
    ]


def _crowded(state: Snapshot, nodes: set[str]) -> list[str]:
    """Nodes on whose CPU slots these workers may need more memory, once their KV arenas are full, than there is."""
    slots_of, each_needs = Scene(state).devices_of, {pool.pool_id: pool.bytes_shared or 0 for pool in state.pools}
    warnings = []
    for node in sorted(nodes):
        ours = [worker for worker in state.workers if worker.node == node and slots_of[worker.worker_id]]
        needed = sum(each_needs[worker.pool_id] * len(slots_of[worker.worker_id]) for worker in ours)
        memory = _memory(state, node)
        if memory is not None and needed > memory:
            warnings.append(
                f"{count(len(ours))} on {node} may come to need {needed / 1e9:.3g} GB of memory, and it has "
                f"{memory / 1e9:.3g} GB. Fewer workers there, or a smaller kv_tokens, leave it room."
            )
    return warnings


def _memory(state: Snapshot, node: str) -> int | None:
    """Of the whole machine, which its CPU slots share out; None is not known."""
    shares = [device.memory_total for device in state.devices if device.node == node and device.kind == DeviceKind.CPU]
    known = [share for share in shares if share is not None]
    return sum(known) if len(known) == len(shares) else None
