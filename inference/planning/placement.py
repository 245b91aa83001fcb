"""Which devices the next worker gets. Pure: a function of what is free, of who is where, and of what was placed before.

Nodes are compared by, in this order: devices reserved for the deployment; devices that suit the role (see `devices`);
NVLink between the devices of one worker; the pool's strategy together with the way that KV has to travel between
prefill and decode (same node, same switch, best measured link); name and index, so that equal input gives equal output.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from inference.contracts.states import DeviceKind, PlacementStrategy, Role
from inference.planning.devices import unsuitability


@dataclass(frozen=True, slots=True)
class Slot:
    """A device that could take a worker now. device: unique in the fleet. node: shown to people, so its name.

    name: the hardware's model. memory: bytes, None is not known. reserved: for this deployment. peers: devices that it
    reaches by NVLink.
    """

    device: str
    node: str
    kind: DeviceKind
    index: int
    name: str = ""
    memory: int | None = None
    labels: frozenset[str] = frozenset()
    reserved: bool = False
    peers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Need:
    """What each worker of one pool needs. devices: all on one node. labels: each device must have all of them.
    memory: bytes on each device; None is not known, and not checked."""

    pool: str
    role: Role
    devices: int = 1
    labels: frozenset[str] = frozenset()
    memory: int | None = None
    strategy: PlacementStrategy = PlacementStrategy.SPREAD


@dataclass(frozen=True, slots=True)
class Placed:
    """A worker that is there already."""

    pool: str
    role: Role
    node: str


#: Whom a worker exchanges KV with.
_PARTNER = {Role.PREFILL: Role.DECODE, Role.DECODE: Role.PREFILL}

#: Devices that are alike for everything but their labels: node, model, reserved.
_Bin = tuple[str, str, bool]

_Key = tuple[object, ...]


def memory_suffices(memory: int | None, need: Need) -> bool:
    """Whether a device of so many bytes has room, as far as that is known."""
    return need.memory is None or memory is None or memory >= need.memory


def choose_kind(held: Collection[DeviceKind], free: Iterable[DeviceKind], wanted: int) -> DeviceKind | None:
    """The one kind of device that a deployment's workers use; None in a fleet with nothing to choose from.

    Workers on unlike devices compute in unlike precisions and could not hand KV to each other. So a deployment stays
    with the kind it holds most of; a new one takes GPUs if they are enough for all `wanted`, else whichever kind is.
    """
    if held:
        return _most(Counter(held))
    available = Counter(free)
    enough = [kind for kind in DeviceKind if available[kind] >= wanted > 0]
    return enough[0] if enough else _most(available)


def _most(kinds: Counter[DeviceKind]) -> DeviceKind | None:
    """The most frequent kind; on a tie the one named first in `DeviceKind`."""
    return max(DeviceKind, key=lambda kind: kinds[kind]) if kinds.total() else None


class Placement:
    """Gives devices to workers one after the other, each where it does best beside those that are there by then.

    A heap for each need holds the bins by key. A key that got worse is corrected when it is popped, one that got better
    is pushed again at once; so a placement costs a few heap operations, however large the fleet.
    """

    def __init__(
        self,
        free: Iterable[Slot],
        *,
        placed: Iterable[Placed] = (),
        taken: Mapping[str, int] | None = None,
        switches: Mapping[str, str] | None = None,
        links: Mapping[tuple[str, str], float] | None = None,
    ) -> None:
        """taken: devices in use, by node. switches: of nodes. links: bytes/s from one node to another."""
        self._bins: dict[_Bin, list[Slot]] = defaultdict(list)
        for slot in sorted(free, key=lambda slot: (slot.index, slot.device)):
            self._bins[slot.node, slot.name, slot.reserved].append(slot)
        self._bins_of: dict[str, list[_Bin]] = defaultdict(list)
        for each in self._bins:
            self._bins_of[each[0]].append(each)
        self._taken = Counter(taken)
        self._crowd: Counter[tuple[str, str]] = Counter()
        self._ways = {role: _Ways(role, switches or {}, links or {}) for role in _PARTNER}
        self._heaps: dict[Need, list[tuple[_Key, _Bin]]] = {}
        for worker in placed:
            self._settle(worker)

    def place(self, need: Need) -> tuple[Slot, ...] | None:
        """Take the best devices for one worker, in the order of their index; None when there are not enough."""
        heap = self._heaps.get(need)
        if heap is None:
            keys = ((self._key(need, each), each) for each in self._bins)
            heap = self._heaps[need] = [(key, each) for key, each in keys if key is not None]
            heapq.heapify(heap)
        while heap:
            stored, best = heapq.heappop(heap)
            key = self._key(need, best)
            if key == stored:
                return self._take(need, best)
            if key is not None:
                heapq.heappush(heap, (key, best))
        return None

    def _take(self, need: Need, best: _Bin) -> tuple[Slot, ...]:
        slots, _ = _group(self._fitting(need, best), need.devices)
        for slot in slots:
            self._bins[best].remove(slot)
        node = best[0]
        self._taken[node] += len(slots)
        nearer = self._settle(Placed(need.pool, need.role, node))
        for other, heap in self._heaps.items():
            for each in (node, *(nearer if need.role == _PARTNER.get(other.role) else ())):
                for bin_ in self._bins_of[each]:
                    if (key := self._key(other, bin_)) is not None:
                        heapq.heappush(heap, (key, bin_))
        return slots

    def _settle(self, worker: Placed) -> set[str]:
        """Count a worker in; the nodes from which its partners now have a shorter way to it."""
        self._crowd[worker.pool, worker.node] += 1
        partner = _PARTNER.get(worker.role)
        return self._ways[partner].add(worker.node) if partner else set()

    def _fitting(self, need: Need, bin_: _Bin) -> list[Slot]:
        return [s for s in self._bins[bin_] if need.labels <= s.labels and memory_suffices(s.memory, need)]

    def _key(self, need: Need, bin_: _Bin) -> _Key | None:
        """Smallest is best; None when the bin has too few devices."""
        fitting = self._fitting(need, bin_)
        if len(fitting) < need.devices:
            return None
        slots, linked = _group(fitting, need.devices)
        node, name, reserved = bin_
        way = self._ways[need.role].length(node) if need.role in self._ways else (0, 0.0)
        crowd, taken = self._crowd[need.pool, node], self._taken[node]
        course = (crowd, *way, taken) if need.strategy == PlacementStrategy.SPREAD else (*way, len(fitting), -taken)
        return not reserved, *unsuitability(name, need.role), not linked, *course, node, slots[0].index, slots[0].device


class _Ways:
    """How far KV has to travel between a worker of `role` on some node and the nearest of its partners."""

    def __init__(self, role: Role, switches: Mapping[str, str], links: Mapping[tuple[str, str], float]) -> None:
        self._switches = switches
        self._nodes_at: dict[str, list[str]] = defaultdict(list)
        for node, switch in switches.items():
            if switch:
                self._nodes_at[switch].append(node)
        # KV goes from prefill to decode: for each partner's node, the speed from (to) everywhere else.
        self._speeds: dict[str, dict[str, float]] = defaultdict(dict)
        for (source, target), speed in links.items():
            near, far = (source, target) if role == Role.PREFILL else (target, source)
            self._speeds[far][near] = speed
        self._partners: set[str] = set()
        self._partner_switches: set[str] = set()
        self._best: dict[str, float] = {}

    def add(self, node: str) -> set[str]:
        """A partner is on `node` from now on. The nodes for which that made the way shorter."""
        if node in self._partners:
            return set()
        self._partners.add(node)
        nearer = {node}
        switch = self._switches.get(node, "")
        if switch and switch not in self._partner_switches:
            self._partner_switches.add(switch)
            nearer.update(self._nodes_at[switch])
        for other, speed in self._speeds.get(node, {}).items():
            if speed > self._best.get(other, 0.0):
                self._best[other] = speed
                nearer.add(other)
        return nearer

    def length(self, node: str) -> tuple[int, float]:
        """Smallest is best: same node, same switch, a measured link, not known; among equals by measured speed."""
        speed = self._best.get(node, 0.0)
        if node in self._partners:
            return 0, 0.0
        if self._switches.get(node, "") in self._partner_switches:
            return 1, -speed
        return (2, -speed) if speed else (3, 0.0)


def _group(slots: Sequence[Slot], size: int) -> tuple[tuple[Slot, ...], bool]:
    """`size` of the slots, all joined by NVLink if there are such, and whether they are; one alone always is."""
    if size == 1:
        return (slots[0],), True
    for start, seed in enumerate(slots):
        joined = [seed]
        for slot in slots[start + 1 :]:
            if all(slot.device in each.peers for each in joined):
                joined.append(slot)
            if len(joined) == size:
                return tuple(joined), True
    return tuple(slots[:size]), False
