"""Devices for the workers that are missing: only such as are free now, so that the fleet is never over-committed (F22),
and never more than the deployment's budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from controlplane.pools.planning.changes import Start
from controlplane.pools.planning.scaling import Standing
from controlplane.pools.planning.scene import Scene, count, fits, need_of
from controlplane.pools.planning.snapshot import DeviceSeen, Snapshot
from inference.contracts.states import DeviceKind
from inference.planning.placement import Placed, Placement, Slot, choose_kind


@dataclass(frozen=True, slots=True)
class Placing:
    """kind: of all devices of the deployment, None when there is nothing to choose from. taken: devices that somebody
    has after it, free: those that the deployment could have and did not get.
    allowed: how many more it may take; None: as many as there are."""

    start: tuple[Start, ...]
    kind: DeviceKind | None
    taken: frozenset[str]
    free: tuple[DeviceSeen, ...]
    allowed: int | None


def place(standings: Sequence[Standing], scene: Scene) -> Placing:
    """Give free devices to what is missing, and count it off."""
    snapshot = scene.snapshot
    gone = {move.worker_id for standing in standings for move in standing.remove}
    ours = {worker.worker_id for worker in snapshot.workers} - gone
    taken = [device for device in snapshot.devices if device.held_by is not None and device.held_by not in gone]
    names = {device.device for device in taken}
    held = [device.kind for device in taken if device.held_by in ours]
    allowed = None if snapshot.budget is None else snapshot.budget - len(held)
    if not any(standing.missing.total() for standing in standings):
        return Placing((), None, frozenset(names), (), allowed)
    free = [device for device in snapshot.devices if device.device not in names and scene.open(device)]
    kind = _kind(standings, held, free)
    free = sorted((device for device in free if device.kind == kind), key=attrgetter("node", "index", "device"))
    placement = _placement(standings, taken, free if allowed is None or allowed > 0 else (), snapshot)
    start = []
    for standing, devices in _placed(standings, placement, allowed):
        start.append(_start(standing, devices))
        allowed = None if allowed is None else allowed - len(devices)
    names |= {device for each in start for device in each.devices}
    left = tuple(device for device in free if device.device not in names)
    return Placing(tuple(start), kind, frozenset(names), left, allowed)


def _placement(
    standings: Sequence[Standing], taken: Iterable[DeviceSeen], free: Iterable[DeviceSeen], snapshot: Snapshot
) -> Placement:
    return Placement(
        (_slot(device) for device in free),
        placed=(Placed(each.pool.pool_id, each.pool.role, worker.node) for each in standings for worker in each.kept),
        taken=Counter(device.node for device in taken),
        switches={node.name: node.switch for node in snapshot.nodes.values()},
        links=snapshot.links,
    )


def _kind(standings: Sequence[Standing], held: Sequence[DeviceKind], free: Sequence[DeviceSeen]) -> DeviceKind | None:
    needy = [standing for standing in standings if standing.missing.total()]
    needs = {need_of(standing.pool) for standing in needy}
    wanted = sum(standing.missing.total() * standing.pool.tensor_parallel for standing in needy)
    fitting = (device.kind for device in free if any(fits(device, need) for need in needs))
    return choose_kind(held, fitting, wanted)


def _slot(device: DeviceSeen) -> Slot:
    return Slot(
        device=device.device,
        node=device.node,
        kind=device.kind,
        index=device.index,
        name=device.name,
        memory=device.memory_total,
        labels=device.labels,
        reserved=bool(device.reserved_for),
        peers=device.nvlink_peers,
    )


def _placed(
    standings: Sequence[Standing], placement: Placement, allowed: int | None
) -> Iterator[tuple[Standing, tuple[str, ...]]]:
    """Pools with devices for one worker each, the neediest first, until nothing more can be placed."""
    needy = list(standings)
    while needy := [standing for standing in needy if standing.missing.total()]:
        standing = min(needy, key=_satisfaction)
        size = standing.pool.tensor_parallel
        slots = None if allowed is not None and allowed < size else placement.place(need_of(standing.pool))
        if slots is None:
            needy.remove(standing)
            continue
        allowed = None if allowed is None else allowed - size
        yield standing, tuple(slot.device for slot in slots)


def _satisfaction(standing: Standing) -> tuple[bool, float]:
    """A worker that nobody stands in for comes first; then the pool that has the smallest share of what it shall have:
    one pair serves sooner than two prefill workers."""
    missing = standing.missing.total()
    return missing <= len(standing.stand_ins), 1 - missing / standing.pool.replicas


def _start(standing: Standing, devices: tuple[str, ...]) -> Start:
    """Fill the revision that has the smallest share of what it shall have."""
    wanted, missing = standing.wanted, standing.missing
    revision = max((each for each in wanted if missing[each]), key=lambda each: missing[each] / wanted[each])
    have = f"{wanted[revision] - missing[revision]} of {count(wanted[revision])}"
    several = len(wanted) > 1 or any(worker.revision != revision for worker in standing.stand_ins)
    missing[revision] -= 1
    reason = f"{standing.pool.role} has {have}" + (f" of revision {revision}" if several else "")
    return Start(standing.pool.pool_id, devices, reason, revision)
