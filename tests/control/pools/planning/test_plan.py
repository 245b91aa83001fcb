"""Claims about what the plan does: first by example, then of every state there can be."""

from __future__ import annotations

from dataclasses import replace

from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.plan import plan
from controlplane.pools.planning.snapshot import Snapshot
from inference.contracts.states import NodeDesired, NodePhase, WorkerDesired, WorkerPhase
from tests.control.pools.planning.fleets import (
    applied,
    device,
    fleet,
    of_every_plain_state,
    of_every_state,
    places,
    worker,
)

RUN, DRAIN, STOP = WorkerDesired.RUN, WorkerDesired.DRAIN, WorkerDesired.STOP


def ids(moves: tuple) -> list[str]:
    return [move.worker_id for move in moves]


def test_satisfied_deployment_gets_an_empty_plan() -> None:
    assert plan(fleet(worker("prefill-1"), worker("decode-1"), prefill=1, decode=1)) == Plan()


def test_new_deployment_starts_one_pair_first_when_devices_are_short() -> None:
    made = plan(fleet(prefill=1, decode=3, slots=2))

    assert sorted(start.pool_id for start in made.start) == ["decode", "prefill"]
    assert [unmet.reason for unmet in made.refused] == ["decode needs 2 free CPU slots: 2 CPU slots, all taken"]


def test_workers_of_a_pool_start_on_different_nodes() -> None:
    made = plan(fleet(prefill=2, decode=2, nodes=("a", "b")))

    assert {(start.pool_id, start.devices[0][0]) for start in made.start} == {
        ("prefill", "a"),
        ("prefill", "b"),
        ("decode", "a"),
        ("decode", "b"),
    }


def test_growing_cancels_a_drain_before_it_starts_anything() -> None:
    """F09: a resize up during the drain."""
    draining = worker("decode-2", WorkerPhase.DRAINING, desired=DRAIN, busy=3)
    made = plan(fleet(worker("decode-1"), draining, decode=2))

    assert ids(made.undrain) == ["decode-2"]
    assert made.start == ()


def test_of_several_drains_the_busiest_is_cancelled() -> None:
    drains = [worker(f"decode-{busy}", WorkerPhase.DRAINING, desired=DRAIN, busy=busy) for busy in (1, 5, 3)]

    assert ids(plan(fleet(*drains, decode=1)).undrain) == ["decode-5"]


def test_a_worker_that_is_stopping_does_not_come_back() -> None:
    made = plan(fleet(worker("decode-1", WorkerPhase.STOPPING, desired=DRAIN), decode=1))

    assert made.undrain == ()
    assert len(made.start) == 1


def test_shrinking_takes_failed_then_failing_then_starting_then_idle_then_newest() -> None:
    workers = [
        worker("decode-old", busy=0, age_s=90),
        worker("decode-new", busy=0, age_s=10),
        worker("decode-busy", busy=4),
        worker("decode-silent", busy=None),
        worker("decode-loading", WorkerPhase.LOADING),
        worker("decode-backoff", WorkerPhase.BACKOFF),
        worker("decode-failed", WorkerPhase.FAILED),
    ]
    order = []
    for replicas in range(6, -1, -1):
        made = plan(fleet(*workers, decode=replicas, slots=8))
        taken = set(ids(made.drain) + ids(made.stop))
        order.append((taken - set(order)).pop())
        assert set(order) == taken

    assert [name.split("-")[1] for name in order] == ["failed", "backoff", "loading", "new", "old", "busy", "silent"]


def test_a_ready_worker_is_drained_and_one_that_never_came_up_is_stopped() -> None:
    made = plan(fleet(worker("decode-1"), worker("decode-2", WorkerPhase.STARTING), decode=0))

    assert ids(made.drain) == ["decode-1"]
    assert ids(made.stop) == ["decode-2"]


def test_a_drain_becomes_a_stop_when_the_process_died() -> None:
    made = plan(fleet(worker("decode-1", WorkerPhase.BACKOFF, desired=DRAIN), decode=0))

    assert [(move.worker_id, move.reason) for move in made.stop] == [("decode-1", "it has nothing to finish")]


def test_a_failed_worker_keeps_its_place() -> None:
    assert plan(fleet(worker("decode-1", WorkerPhase.FAILED), decode=1)) == Plan()


def test_a_worker_on_a_silent_node_is_replaced_elsewhere_and_keeps_its_device() -> None:
    """F10."""
    away = worker("decode-1", WorkerPhase.UNKNOWN, node="a")
    made = plan(fleet(away, decode=1, nodes=("a", "b"), lost=("a",)))

    assert [start.devices for start in made.start] == [("b/0",)]
    assert made.stop == made.remove == ()


def test_without_room_elsewhere_the_refusal_names_the_silent_node() -> None:
    away = worker("decode-1", WorkerPhase.UNKNOWN, node="a")
    made = plan(fleet(away, decode=1, nodes=("a",), lost=("a",), slots=2))

    assert made.start == ()
    assert [unmet.reason for unmet in made.refused] == [
        "decode needs 1 free CPU slot: 2 CPU slots, 2 on nodes that do not report"
    ]


def test_when_the_node_is_back_the_replacement_that_is_not_up_yet_goes() -> None:
    """F10: the worker that came back is adopted; there are never two for one place for long."""
    made = plan(fleet(worker("decode-1"), worker("decode-2", WorkerPhase.LOADING), decode=1))

    assert ids(made.stop) == ["decode-2"]
    assert made.drain == ()


def test_deleting_takes_every_worker_and_starts_none() -> None:
    workers = [
        worker("prefill-1"),
        worker("decode-1", WorkerPhase.LOADING),
        worker("decode-2", WorkerPhase.UNKNOWN, node="b"),
        worker("decode-3", WorkerPhase.DRAINING, desired=DRAIN),
    ]
    made = plan(fleet(*workers, prefill=3, decode=3, nodes=("a", "b"), lost=("b",), deleting=True))

    assert ids(made.drain) == ["prefill-1", "decode-2"]
    assert ids(made.stop) == ["decode-1"]
    assert made.start == made.undrain == made.refused == ()


def test_a_worker_that_is_gone_is_removed_and_its_device_serves_at_once() -> None:
    made = plan(fleet(worker("decode-1", WorkerPhase.STOPPED, desired=STOP), decode=1, slots=1))

    assert ids(made.remove) == ["decode-1"]
    assert [start.devices for start in made.start] == [("a/0",)]


def test_a_worker_stopped_by_its_agent_and_still_wanted_keeps_its_place() -> None:
    """The agent went down in order; when it is back it starts the worker again."""
    assert plan(fleet(worker("decode-1", WorkerPhase.STOPPED), decode=1)) == Plan()


def test_a_stopped_worker_goes_first_and_at_once_when_there_are_too_many() -> None:
    made = plan(fleet(worker("decode-1", WorkerPhase.STOPPED), worker("decode-2"), decode=1))

    assert ids(made.remove) == ["decode-1"]
    assert made.drain == made.stop == ()


def test_rebalancing_releases_first_and_starts_then() -> None:
    """F22: 1P3D to 3P1D on four devices, never more than four in use."""
    workers = [worker("prefill-1"), *(worker(f"decode-{number}") for number in (1, 2, 3))]
    state = fleet(*workers, prefill=3, decode=1)
    made = plan(state)
    assert len(made.drain) == 2
    assert made.start == ()

    state = applied(state, made)
    waiting = plan(state)
    assert not waiting.acts
    assert [unmet.reason for unmet in waiting.wait] == ["prefill waits for 2 CPU slots being freed"]
    assert waiting.refused == ()


def test_a_missing_device_takes_no_worker() -> None:
    state = fleet(decode=1, devices=(device("a/0", missing=True),))

    assert [unmet.reason for unmet in plan(state).refused] == ["decode needs 1 free device: 1 device, 1 missing"]


def test_an_empty_fleet_says_so() -> None:
    refused = plan(fleet(prefill=1, decode=1, slots=0)).refused

    assert [unmet.reason for unmet in refused] == [
        "prefill needs 1 free device: the fleet has none",
        "decode needs 1 free device: the fleet has none",
    ]


# -- of every state ----------------------------------------------------------------------------


@of_every_state
def test_starts_use_distinct_free_devices_of_reporting_nodes(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    devices = {each.device: each for each in snapshot.devices}
    gone = set(ids(made.remove))

    chosen = [devices[device] for start in made.start for device in start.devices]
    assert len({each.device for each in chosen}) == len(chosen)
    for each in chosen:
        assert each.held_by is None or each.held_by in gone
        assert not each.missing
        assert snapshot.nodes[each.node].phase == NodePhase.READY


@of_every_state
def test_workers_of_one_deployment_start_on_one_kind_of_device(snapshot: Snapshot) -> None:
    kinds = {each.device: each.kind for each in snapshot.devices}

    assert len({kinds[start.devices[0]] for start in plan(snapshot).start}) <= 1


@of_every_state
def test_an_applied_plan_leaves_nothing_to_do(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    again = plan(applied(snapshot, made))

    assert not again.acts
    assert (again.wait, again.refused) == (made.wait, made.refused)


@of_every_state
def test_the_same_state_gives_the_same_plan_whatever_the_order_of_devices(snapshot: Snapshot) -> None:
    assert plan(snapshot) == plan(replace(snapshot, devices=snapshot.devices[::-1]))


@of_every_state
def test_each_worker_is_moved_at_most_once_and_only_along_the_arrows(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    by_id = {each.worker_id: each for each in snapshot.workers}
    moved = [*ids(made.undrain), *ids(made.flip), *ids(made.drain), *ids(made.stop), *ids(made.remove)]

    assert len(moved) == len(set(moved))
    assert all(by_id[worker_id].desired == DRAIN for worker_id in ids(made.undrain))
    assert all(by_id[worker_id].desired == RUN for worker_id in ids(made.drain))
    assert all(by_id[worker_id].desired != STOP for worker_id in ids(made.stop))
    for worker_id in ids(made.remove):
        retired = snapshot.nodes[by_id[worker_id].node].desired == NodeDesired.RETIRED
        assert retired or by_id[worker_id].phase == WorkerPhase.STOPPED


@of_every_plain_state
def test_each_pool_ends_with_what_it_shall_have_or_says_how_many_it_lacks(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    after = places(applied(snapshot, made))
    unmet = {each.pool_id for each in (*made.wait, *made.refused)}
    for pool in snapshot.pools:
        wanted = 0 if snapshot.deleting else pool.replicas
        assert after[pool.pool_id] <= wanted
        assert (after[pool.pool_id] < wanted) == (pool.pool_id in unmet)


@of_every_plain_state
def test_nothing_is_refused_while_a_device_of_the_kind_is_free(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    if not made.refused or not made.start:
        return
    after = applied(snapshot, made)
    kind = {each.device: each.kind for each in snapshot.devices}[made.start[0].devices[0]]

    assert not any(
        each.kind == kind
        and each.held_by is None
        and not each.missing
        and snapshot.nodes[each.node].phase == NodePhase.READY
        for each in after.devices
    )


@of_every_state
def test_a_deployment_being_deleted_starts_and_brings_back_nothing(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    if snapshot.deleting:
        assert made.start == made.undrain == made.wait == made.refused == ()
        assert all(each.desired != RUN for each in applied(snapshot, made).workers)
