"""How much memory a worker needs on each of its devices, from what the catalogue knows of its model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from controlplane.pools.models import Deployment, Revision
from controlplane.pools.planning.snapshot import DeviceSeen, PoolSeen, WorkerSeen
from inference.contracts.states import DeviceKind
from inference.planning.model.fit import Load, Need, need


def with_memory(
    pools: Sequence[PoolSeen],
    deployment: Deployment,
    *,
    revisions: Iterable[int | None],
    workers: Sequence[WorkerSeen],
    devices: Sequence[DeviceSeen],
) -> tuple[PoolSeen, ...]:
    """The pools with `bytes_needed` or, where they are on CPU slots, `bytes_shared`; in one query. The memory of a slot
    is a share of the machine's that a worker may exceed: the node looks at what is free there before each start.

    revisions: numbers of those that workers may be started with, None for none.
    """
    found = Revision.objects.filter(
        deployment=deployment, number__in=[each for each in revisions if each is not None]
    ).select_related("model")
    rows, kind = list(found), _kind(workers, devices)
    needed = [(pool, _bytes_needed(rows, kind, pool.tensor_parallel)) for pool in pools]
    if kind == DeviceKind.CPU:
        return tuple(replace(pool, bytes_shared=size) for pool, size in needed)
    return tuple(replace(pool, bytes_needed=size) for pool, size in needed)


def _bytes_needed(revisions: Iterable[Revision], kind: DeviceKind, tensor_parallel: int) -> int | None:
    """On each device of a worker, of whichever revision needs most; None where that is not known of one."""
    needs = [_need(revision, kind, tensor_parallel) for revision in revisions]
    if not needs or None in needs:
        return None
    return max(needed.total for needed in needs if needed is not None)


def bytes_to_start(revision: Revision, kinds: Collection[DeviceKind]) -> int | None:
    """What a start takes on all of a worker's devices together (`kinds`: of each); None is not known.

    The KV arena is there from the beginning. On GPUs it is the least that is needed, without an allowance, of which
    nobody knows how much is used; on CPUs that is the process itself, which any start takes.
    """
    kind = next(iter(kinds), None)
    needed = None if kind is None else _need(revision, kind, len(kinds))
    if needed is None:
        return None
    return len(kinds) * (needed.weights + needed.kv) + (needed.allowance if kind == DeviceKind.CPU else 0)


def _need(revision: Revision, kind: DeviceKind, tensor_parallel: int) -> Need | None:
    shape, settings = revision.model.known_shape, revision.engine_settings
    load = Load(kv_tokens=settings.kv_tokens, dtype=settings.dtype, tensor_parallel=tensor_parallel)
    return None if shape is None else need(shape, load, kind)


def _kind(workers: Sequence[WorkerSeen], devices: Sequence[DeviceSeen]) -> DeviceKind:
    """Of the devices that the plan will choose: those that the deployment has; without any, GPUs where there are
    some."""
    ours = {worker.worker_id for worker in workers}
    held = Counter(device.kind for device in devices if device.held_by in ours)
    if held:
        return held.most_common(1)[0][0]
    there = {device.kind for device in devices if not device.missing}
    return DeviceKind.GPU if DeviceKind.GPU in there else DeviceKind.CPU
