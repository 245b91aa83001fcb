"""A small world in which plans are carried out step by step, by workers and nodes that do as they please.

After each plan it checks what must hold at every moment; see `PlanWorld.carry_out`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.course import come_true
from controlplane.pools.planning.plan import plan
from controlplane.pools.planning.scene import Scene
from controlplane.pools.planning.snapshot import DeviceSeen, Snapshot, WorkerSeen
from inference.contracts.states import (
    STARTING_UP,
    DeviceKind,
    NodeDesired,
    NodePhase,
    WorkerDesired,
    WorkerPhase,
)
from tests.control.pools.planning.fleets import applied, fleet

Choose = Callable[[list[Any]], Any]


class PlanWorld:
    """`state` is what the rows say. held_max: most devices that the deployment ever held."""

    def __init__(self, state: Snapshot) -> None:
        self.state = state
        self.serial = 0
        self.held_max = held(state)

    # -- plans

    def carry_out(self) -> Plan:
        """Make a plan of what is, check it, write it."""
        before, made = self.state, plan(self.state)
        self.serial += 1
        self._check_devices(made)
        after = applied(before, made, serial=self.serial)
        self._check_budget(before, after)
        self._check_serving(before, after)
        assert not plan(after).acts, "an applied plan leaves nothing to do until something happens"
        self.state = after
        self.held_max = max(self.held_max, held(after))
        return made

    def _check_devices(self, made: Plan) -> None:
        """A device has one owner, is free when it gets one, and a worker's devices are on one node."""
        scene = Scene(self.state)
        removed = {move.worker_id for move in made.remove}
        devices = {each.device: each for each in self.state.devices}
        given = [devices[device] for start in made.start for device in start.devices]
        assert len({each.device for each in given}) == len(given)
        assert all(each.held_by is None or each.held_by in removed for each in given)
        assert all(scene.open(each) for each in given)
        for start in made.start:
            assert len({devices[device].node for device in start.devices}) == 1

    def _check_budget(self, before: Snapshot, after: Snapshot) -> None:
        """Never more than it had before and was free, and never more than it may have (F22)."""
        scene = Scene(before)
        free = sum(each.held_by is None and scene.open(each) for each in before.devices)
        gone = sum(each.held_by in {w.worker_id for w in before.workers if scene.gone(w)} for each in before.devices)
        assert held(after) <= held(before) + free + gone
        if before.budget is not None:
            assert held(after) <= max(before.budget, held(before))

    @staticmethod
    def _check_serving(before: Snapshot, after: Snapshot) -> None:
        """A plan takes no pool below its minimum."""
        was, is_ = serving(before), serving(after)
        for pool in before.pools:
            assert before.deleting or is_[pool.pool_id] >= min(was[pool.pool_id], pool.min_replicas)

    # -- what happens by itself

    def happen(self, choose: Choose) -> None:
        """One thing, of those that can, as `choose` picks."""
        events: list[Callable[[Choose], None]] = [
            self._worker_goes_on,
            self._worker_goes_on,
            self._worker_goes_on,
            self._worker_dies,
            self._node_changes,
            self._operator_resizes,
            self._operator_rolls_out,
            self._others_come_and_go,
        ]
        choose(events)(choose)

    def _worker_goes_on(self, choose: Choose) -> None:
        """A drain ends, a start gets on, a flip comes to its end or is refused."""
        able = [each for each in self.state.workers if self.state.nodes[each.node].phase == NodePhase.READY]
        if not able:
            return
        seen: WorkerSeen = choose(able)
        role = next(pool.role for pool in self.state.pools if pool.pool_id == seen.pool_id)
        if seen.desired != WorkerDesired.RUN:
            self._set(seen, phase=WorkerPhase.STOPPED)
        elif seen.phase in STARTING_UP:
            self._set(seen, phase=WorkerPhase.READY, role=role)
        elif seen.role not in (None, role) and choose([True, True, False]):
            self._set(seen, phase=WorkerPhase.READY, role=role, refused_role=None)
        elif seen.role not in (None, role):
            back = next(pool.pool_id for pool in self.state.pools if pool.role == seen.role)
            self._set(seen, phase=WorkerPhase.READY, refused_role=role, pool_id=back)
        elif seen.phase in (WorkerPhase.DRAINING, WorkerPhase.UNKNOWN):
            self._set(seen, phase=WorkerPhase.READY, role=role)

    def _worker_dies(self, choose: Choose) -> None:
        if self.state.workers:
            self._set(choose(list(self.state.workers)), phase=choose([WorkerPhase.BACKOFF, WorkerPhase.FAILED]))

    def _node_changes(self, choose: Choose) -> None:
        """It falls silent, is heard again (and says what it runs), or an operator wants something else of it."""
        node = self.state.nodes[choose(sorted(self.state.nodes))]
        if node.phase == NodePhase.LOST:
            changed = replace(node, phase=NodePhase.READY)
        elif choose([True, False]):
            changed = replace(node, phase=NodePhase.LOST)
        else:
            changed = replace(node, desired=choose([NodeDesired.ACTIVE, NodeDesired.CORDONED, NodeDesired.DRAINING]))
        self.state = replace(self.state, nodes={**self.state.nodes, node.name: changed})
        if changed.phase != node.phase:
            for each in self.state.workers:
                if each.node == node.name:
                    lost = changed.phase == NodePhase.LOST
                    self._set(each, phase=WorkerPhase.UNKNOWN if lost else choose([WorkerPhase.READY, each.phase]))

    def _operator_resizes(self, choose: Choose) -> None:
        pool = choose(list(self.state.pools))
        replicas = choose(list(range(pool.min_replicas, 5)))
        pools = tuple(replace(each, replicas=replicas) if each is pool else each for each in self.state.pools)
        self.state = replace(self.state, pools=pools)

    def _operator_rolls_out(self, choose: Choose) -> None:
        """Begins, goes on, is rolled back, or has become the stable one."""
        state = self.state
        if state.candidate is None:
            self.state = replace(state, candidate=state.stable + 1, candidate_share=choose([0.3, 1.0]))
        else:
            self.state = choose(
                [
                    replace(state, candidate_share=1.0),
                    replace(state, candidate=None),
                    replace(state, stable=state.candidate, candidate=None),
                ]
            )

    def _others_come_and_go(self, choose: Choose) -> None:
        """Another deployment takes a free device, or lets one go."""
        ours = {each.worker_id for each in self.state.workers}
        theirs = [each for each in self.state.devices if each.held_by not in ours]
        if theirs:
            device: DeviceSeen = choose(theirs)
            changed = replace(device, held_by="another" if device.held_by is None else None)
            devices = tuple(changed if each is device else each for each in self.state.devices)
            self.state = replace(self.state, devices=devices)

    def _set(self, seen: WorkerSeen, **more: Any) -> None:
        workers = [replace(each, **more) if each.worker_id == seen.worker_id else each for each in self.state.workers]
        self.state = replace(self.state, workers=tuple(workers))

    # -- and in the end

    def settle(self) -> Plan:
        """All goes well from now on, until nothing changes any more; the last plan."""
        for _ in range(60):
            made = self.carry_out()
            after = come_true(self.state)
            if not made.acts and after.workers == self.state.workers:
                return made
            self.state = after
        raise AssertionError("it does not come to rest")


def held(state: Snapshot) -> int:
    ours = {each.worker_id for each in state.workers}
    return sum(each.held_by in ours for each in state.devices)


def serving(state: Snapshot) -> Counter[str]:
    """Workers that are known to take requests, by pool; none on nodes that were retired."""
    scene = Scene(state)
    roles = {pool.pool_id: pool.role for pool in state.pools}
    return Counter(
        each.pool_id
        for each in state.workers
        if each.desired == WorkerDesired.RUN and scene.serves(each, roles[each.pool_id]) and not scene.gone(each)
    )


@st.composite
def worlds(draw: st.DrawFn) -> PlanWorld:
    """A deployment that is to be deployed, on a fleet of one kind that may be too small for it."""
    size = draw(st.sampled_from([1, 1, 1, 2]))
    prefill, decode = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    state = fleet(
        prefill=prefill,
        decode=decode,
        slots=draw(st.integers(1, 4)),
        nodes=("a", "b", "c")[: draw(st.integers(1, 3))],
        pool={"tensor_parallel": size, "min_replicas": draw(st.integers(0, 1))},
        can_flip=draw(st.booleans()),
        deployment="ours",
        budget=draw(st.sampled_from([None, None, (prefill + decode) * size])),
    )
    kinds = tuple(replace(each, kind=DeviceKind.GPU) for each in state.devices)
    return PlanWorld(replace(state, devices=kinds))
