"""Claims about what the plan does with nodes and devices that are not to be used, or not any more."""

from __future__ import annotations

from dataclasses import replace

from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.plan import plan
from controlplane.pools.planning.snapshot import Snapshot
from inference.contracts.states import NodeDesired, NodePhase, WorkerDesired, WorkerPhase
from tests.control.pools.planning.fleets import applied, device, fleet, of_every_state, worker

CORDONED, DRAINING, RETIRED = NodeDesired.CORDONED, NodeDesired.DRAINING, NodeDesired.RETIRED


def ids(moves: tuple) -> list[str]:
    return [move.worker_id for move in moves]


def with_worker(state: Snapshot, name: str, **more: object) -> Snapshot:
    """The state once a worker has changed."""
    changed = [replace(each, **more) if each.worker_id == name else each for each in state.workers]
    return replace(state, workers=tuple(changed))


# -- cordoned


def test_a_cordoned_node_keeps_what_it_runs_and_gets_nothing_new() -> None:
    state = fleet(worker("decode-1"), decode=2, nodes=("a", "b"), desired={"a": CORDONED})

    assert plan(replace(state, pools=fleet(decode=1).pools)) == Plan()
    assert [start.devices for start in plan(state).start] == [("b/0",)]


def test_a_drain_on_a_cordoned_node_can_be_cancelled() -> None:
    draining = worker("decode-1", WorkerPhase.DRAINING, desired=WorkerDesired.DRAIN)

    assert ids(plan(fleet(draining, decode=1, desired={"a": CORDONED})).undrain) == ["decode-1"]


def test_the_refusal_tells_devices_on_cordoned_nodes_from_those_being_drained() -> None:
    state = fleet(decode=1, nodes=("a", "b"), slots=1, desired={"a": CORDONED, "b": DRAINING})

    assert [each.reason for each in plan(state).refused] == [
        "decode needs 1 free device: 2 devices, 1 on cordoned nodes, 1 on nodes being drained"
    ]


# -- draining


def test_a_worker_on_a_node_being_drained_serves_until_its_replacement_does() -> None:
    state = fleet(worker("decode-1"), decode=1, nodes=("a", "b"), desired={"a": DRAINING})
    made = plan(state)
    assert [start.devices for start in made.start] == [("b/0",)]
    assert made.drain == made.wait == made.refused == ()

    state = applied(state, made)
    assert plan(state) == Plan(), "the replacement is still coming up"

    state = with_worker(state, "decode-new0.0", phase=WorkerPhase.READY, role="decode")
    assert [(move.worker_id, move.reason) for move in plan(state).drain] == [("decode-1", "a is being drained")]


def test_without_room_elsewhere_it_is_drained_all_the_same() -> None:
    state = fleet(worker("decode-1"), worker("decode-2"), decode=2, desired={"a": DRAINING})
    made = plan(state)

    assert ids(made.drain) == ["decode-1", "decode-2"]
    assert [each.reason for each in made.refused] == [
        "decode needs 2 free CPU slots: 4 CPU slots, 4 on nodes being drained"
    ]


def test_but_not_below_the_minimum_and_it_says_so() -> None:
    workers = [worker("decode-1", busy=5), worker("decode-2")]
    state = fleet(*workers, decode=2, desired={"a": DRAINING}, pool={"min_replicas": 1})
    made = plan(state)

    assert ids(made.drain) == ["decode-2"]
    assert [each.reason for each in made.wait] == [
        "decode-1 stays on a, which is being drained: decode may not have fewer than 1 ready worker"
    ]
    assert plan(applied(state, made)).acts is False


def test_of_two_workers_and_one_free_device_one_starts_first_and_one_drains_first() -> None:
    state = fleet(
        worker("decode-1", busy=5), worker("decode-2"), decode=2, nodes=("a", "b"), slots=2, desired={"a": DRAINING}
    )
    state = replace(state, devices=tuple(each for each in state.devices if each.device != "b/1"))
    made = plan(state)

    assert [start.devices for start in made.start] == [("b/0",)]
    assert ids(made.drain) == ["decode-2"]


def test_what_does_not_serve_on_such_a_node_goes_at_once() -> None:
    workers = [worker("decode-1", WorkerPhase.LOADING), worker("decode-2", WorkerPhase.FAILED)]
    made = plan(fleet(*workers, decode=2, nodes=("a", "b"), desired={"a": DRAINING}))

    assert ids(made.stop) == ["decode-1", "decode-2"]
    assert len(made.start) == 2


def test_a_node_that_is_wanted_again_takes_its_drains_back() -> None:
    draining = worker("decode-1", WorkerPhase.DRAINING, desired=WorkerDesired.DRAIN)
    coming = worker("decode-2", WorkerPhase.LOADING, node="b")
    state = fleet(draining, coming, decode=2, nodes=("a", "b"))

    assert ids(plan(state).undrain) == ["decode-1"]
    assert plan(replace(state, pools=fleet(decode=1).pools)) == Plan()


# -- retired


def test_workers_on_a_retired_node_count_as_gone_whatever_they_were() -> None:
    state = fleet(
        worker("decode-1", WorkerPhase.UNKNOWN),
        worker("decode-2", WorkerPhase.DRAINING, desired=WorkerDesired.DRAIN),
        decode=1,
        nodes=("a", "b"),
        lost=("a",),
        desired={"a": RETIRED},
    )
    made = plan(state)

    assert ids(made.remove) == ["decode-1", "decode-2"]
    assert [start.devices for start in made.start] == [("b/0",)]
    assert made.drain == made.stop == made.undrain == ()


def test_devices_of_a_retired_node_are_not_even_counted() -> None:
    assert [each.reason for each in plan(fleet(decode=1, desired={"a": RETIRED})).refused] == [
        "decode needs 1 free device: the fleet has none"
    ]


# -- devices


def test_blocked_reserved_and_unlabelled_devices_are_named_in_the_refusal() -> None:
    devices = (
        device("a/0", labels=frozenset({"x"})),
        device("a/1", held_by="other", labels=frozenset({"x"})),
        device("a/2", labels=frozenset({"x"}), blocked="maintenance"),
        device("a/3", labels=frozenset({"x"}), reserved_for="others"),
        device("a/4"),
        device("a/5", labels=frozenset({"x"}), memory_total=40_000_000_000),
    )
    state = fleet(decode=2, devices=devices, pool={"labels": frozenset({"x"}), "bytes_needed": 80_000_000_000})
    made = plan(replace(state, deployment="ours"))

    assert [start.devices for start in made.start] == [("a/0",)]
    assert [each.reason for each in made.refused] == [
        "decode needs 1 free CPU slot of at least 80 GB with label x: 6 CPU slots, 2 taken, 1 blocked (maintenance), "
        "1 reserved for others, 1 with less memory, 1 without the label"
    ]


def test_a_worker_on_a_device_in_maintenance_stays() -> None:
    state = fleet(worker("decode-1"), decode=1)
    blocked = tuple(replace(each, blocked="maintenance") for each in state.devices)

    assert plan(replace(state, devices=blocked)) == Plan()


def test_a_device_reserved_for_the_deployment_is_taken_before_others() -> None:
    devices = (device("a/0"), device("b/0", reserved_for="ours"))
    state = fleet(decode=1, nodes=("a", "b"), devices=devices, deployment="ours")

    assert [start.devices for start in plan(state).start] == [("b/0",)]


def test_a_group_needs_its_devices_on_one_node() -> None:
    devices = (device("a/0"), device("b/0"), device("b/1"), device("c/0"))
    state = fleet(decode=2, nodes=("a", "b", "c"), devices=devices, pool={"tensor_parallel": 2})
    made = plan(state)

    assert [start.devices for start in made.start] == [("b/0", "b/1")]
    assert [each.reason for each in made.refused] == [
        "decode needs 2 free CPU slots on one node: 4 CPU slots, 2 free, 2 taken"
    ]


def test_decode_goes_where_its_kv_has_the_shortest_way() -> None:
    """The node of prefill is full: first its switch, then the best measured link."""
    state = fleet(worker("prefill-1"), prefill=1, decode=1, nodes=("a", "b", "c", "d"), slots=1)
    linked = replace(state, links={("a", "b"): 1e9, ("a", "d"): 2e9})
    switches = {"a": "s", "c": "s"}
    switched = {name: replace(node, switch=switches.get(name, "")) for name, node in state.nodes.items()}

    assert [start.devices for start in plan(state).start] == [("b/0",)]
    assert [start.devices for start in plan(linked).start] == [("d/0",)]
    assert [start.devices for start in plan(replace(linked, nodes=switched)).start] == [("c/0",)]


# -- of every state


@of_every_state
def test_no_worker_starts_where_none_may(snapshot: Snapshot) -> None:
    devices = {each.device: each for each in snapshot.devices}
    pools = {each.pool_id: each for each in snapshot.pools}
    for start in plan(snapshot).start:
        pool = pools[start.pool_id]
        chosen = [devices[each] for each in start.devices]
        assert len(chosen) == pool.tensor_parallel
        assert len({each.node for each in chosen}) == len({each.name for each in chosen}) == 1
        for each in chosen:
            node = snapshot.nodes[each.node]
            assert (node.phase, node.desired) == (NodePhase.READY, NodeDesired.ACTIVE)
            assert not each.blocked
            assert each.reserved_for in ("", "ours")
            assert pool.labels <= each.labels
            assert None in (pool.bytes_needed, each.memory_total) or each.memory_total >= pool.bytes_needed
