"""Which device the next worker gets. Pure functions of what is free and of who is where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from inference.contracts.states import DeviceKind


@dataclass(frozen=True, slots=True)
class Slot:
    """A device that could take one worker now. device: unique in the fleet. node: shown to people, so its name."""

    device: str
    node: str
    kind: DeviceKind
    index: int


def choose_kind(held: Collection[DeviceKind], free: Collection[Slot], wanted: int) -> DeviceKind | None:
    """The one kind of device that a deployment's workers use; None in a fleet with nothing to choose from.

    Workers on unlike devices compute in unlike precisions and could not hand KV to each other. So a deployment stays
    with the kind it holds most of; a new one takes GPUs if they are enough for all `wanted`, else whichever kind is.
    """
    if held:
        return _most(Counter(held))
    available = Counter(slot.kind for slot in free)
    enough = [kind for kind in DeviceKind if available[kind] >= wanted > 0]
    return enough[0] if enough else _most(available)


def choose_slot(free: Iterable[Slot], same_pool: Mapping[str, int], taken: Mapping[str, int]) -> Slot | None:
    """The free device on the node that would suffer least: first the node with the fewest workers of the same pool
    (`same_pool`, by node), so that losing a node costs a pool as little as possible; then the least occupied one
    (`taken`); then by name and index, so that equal input gives equal output."""

    def order(slot: Slot) -> tuple[int, int, str, int, str]:
        return same_pool.get(slot.node, 0), taken.get(slot.node, 0), slot.node, slot.index, slot.device

    return min(free, key=order, default=None)


def _most(kinds: Counter[DeviceKind]) -> DeviceKind | None:
    """The most frequent kind; on a tie the one named first in `DeviceKind`."""
    return max(DeviceKind, key=lambda kind: kinds[kind]) if kinds.total() else None
