"""Why a pool lacks workers: what it waits for, or what is missing, in one sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from controlplane.pools.planning.changes import Unmet
from controlplane.pools.planning.placing import Placing
from controlplane.pools.planning.replacing import Replacing
from controlplane.pools.planning.scaling import Standing
from controlplane.pools.planning.scene import Scene, count, fits, need_of
from controlplane.pools.planning.snapshot import DeviceSeen, PoolSeen
from controlplane.pools.planning.waiting import Outlook
from inference.contracts.states import DeviceKind, NodeDesired, NodePhase
from inference.planning.placement import memory_suffices

_NOUN = {DeviceKind.GPU: "GPU", DeviceKind.CPU: "CPU slot", None: "device"}

_TAKEN = "taken"


def explain(
    standings: Sequence[Standing], scene: Scene, replacing: Replacing, outlook: Outlook
) -> tuple[tuple[Unmet, ...], tuple[Unmet, ...]]:
    """What is waited for, and what is refused."""
    placing = outlook.placing
    wait: list[Unmet] = []
    refused: list[Unmet] = []
    for standing in standings:
        pool, role = standing.pool, standing.pool.role
        freed, short = outlook.awaited[pool.pool_id], outlook.short(standing)
        later = min(short, replacing.rolling(standing, outlook))
        sentences = replacing.notes(standing, outlook)
        if freed:
            things = count(freed * pool.tensor_parallel, _NOUN[placing.kind])
            sentences.insert(0, f"{role} waits for {things} being freed")
        if later:
            sentences.append(f"{role} has {count(later)} to replace, a few at a time, as no more devices are free")
        wait += [Unmet(pool.pool_id, sentence) for sentence in sentences]
        if lacking := short - later:
            refused.append(Unmet(pool.pool_id, _refusal(lacking, pool, scene, placing)))
    return tuple(wait), tuple(refused)


def _refusal(lacking: int, pool: PoolSeen, scene: Scene, placing: Placing) -> str:
    needs = f"{pool.role} needs {_needed(lacking, pool, placing.kind)}"
    if placing.allowed is not None and placing.allowed < pool.tensor_parallel and _one_would_do(pool, placing):
        return f"{needs}: the deployment may hold {count(scene.snapshot.budget or 0, 'device')} for now, and holds them"
    return f"{needs}: {_inventory(pool, placing, scene)}"


def _one_would_do(pool: PoolSeen, placing: Placing) -> bool:
    return any(fits(device, need_of(pool)) for device in placing.free)


def _needed(lacking: int, pool: PoolSeen, kind: DeviceKind | None) -> str:
    """ "2 free GPUs of at least 80 GB with label x"."""
    size, noun = pool.tensor_parallel, _NOUN[kind]
    free = count(lacking * size, f"free {noun}")
    together = "" if size == 1 else " on one node" if lacking == 1 else f", {size} each on one node,"
    memory = "" if pool.bytes_needed is None else f" of at least {pool.bytes_needed / 1e9:.3g} GB"
    return f"{free}{together}{memory}{_with(pool.labels)}"


def _with(labels: frozenset[str]) -> str:
    return f" with label{'s' if len(labels) > 1 else ''} {', '.join(sorted(labels))}" if labels else ""


def _inventory(pool: PoolSeen, placing: Placing, scene: Scene) -> str:
    """What the fleet has, in a few words."""
    kind, nodes = placing.kind, scene.snapshot.nodes
    ours = [each for each in scene.snapshot.devices if nodes[each.node].desired != NodeDesired.RETIRED]
    devices = [device for device in ours if kind in (None, device.kind)]
    if not devices:
        return "the fleet has none"
    states = Counter(_state(device, pool, placing, scene) for device in devices)
    if states[_TAKEN] == len(devices):
        return f"{count(len(devices), _NOUN[kind])}, all taken"
    order = sorted(states, key=lambda state: (state not in ("free", _TAKEN), state))
    return f"{count(len(devices), _NOUN[kind])}, " + ", ".join(f"{states[state]} {state}" for state in order)


def _state(device: DeviceSeen, pool: PoolSeen, placing: Placing, scene: Scene) -> str:
    """The one reason, the least easily changed first, for which a device does not get a worker of the pool."""
    node = scene.snapshot.nodes[device.node]
    checks = (
        (not pool.labels <= device.labels, f"without the label{'s' if len(pool.labels) > 1 else ''}"),
        (not memory_suffices(device.memory_total, need_of(pool)), "with less memory"),
        (node.phase != NodePhase.READY, "on nodes that do not report"),
        (node.desired == NodeDesired.DRAINING, "on nodes being drained"),
        (node.desired != NodeDesired.ACTIVE, "on cordoned nodes"),
        (device.missing, "missing"),
        (bool(device.blocked), f"blocked ({device.blocked})"),
        (device.device in placing.taken, _TAKEN),
        (device.reserved_for not in ("", scene.snapshot.deployment), "reserved for others"),
    )
    return next((state for applies, state in checks if applies), "free")
