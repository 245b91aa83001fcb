from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from inference.agent.workers.diff import Action, ActionKind, ProcessState, ProcessView, changes, device_ids, diff
from inference.contracts.specs import DeviceAssignment, NodeSpec, WorkerSpec
from inference.contracts.states import Role, WorkerDesired
from tests.inference.agent.node_under_test import NODE, worker

NOW = 1000.0
IDS = ("a", "b", "c")
DEVICES = ("gpu-0", "gpu-1")


def spec_of(*workers: WorkerSpec) -> NodeSpec:
    return NodeSpec(node_id=NODE, generation=1, workers=workers)


def view(worker_id: str, state: ProcessState = ProcessState.RUNNING, **changes: object) -> ProcessView:
    base = ProcessView(
        worker_id=worker_id,
        incarnation=f"{worker_id}-1",
        role=Role.DECODE,
        device_ids=frozenset({f"cpu-{worker_id}"}),
        state=state,
        served=True,
        switches_role=True,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def only(spec: NodeSpec | None, *views: ProcessView) -> Action:
    actions = diff(spec, views, NOW)
    assert len(actions) == 1
    return actions[0]


def test_a_wanted_worker_without_a_process_is_started() -> None:
    assert only(spec_of(worker("a"))).kind is ActionKind.START


def test_a_running_wanted_worker_is_kept() -> None:
    assert only(spec_of(worker("a")), view("a")).kind is ActionKind.KEEP


def test_no_spec_ends_nothing() -> None:
    assert only(None, view("a")).kind is ActionKind.KEEP
    assert only(None, view("a", ProcessState.FOUND)).kind is ActionKind.ADOPT


def test_an_unlisted_process_is_stopped_and_then_forgotten() -> None:
    assert only(spec_of(), view("a")).kind is ActionKind.STOP
    assert only(spec_of(), view("a", ProcessState.STOPPING)).kind is ActionKind.KEEP
    assert only(spec_of(), view("a", ProcessState.GONE)).kind is ActionKind.FORGET


def test_a_found_process_is_adopted_only_when_its_incarnation_is_wanted() -> None:
    found = view("a", ProcessState.FOUND)
    assert only(spec_of(worker("a")), found).kind is ActionKind.ADOPT
    assert only(spec_of(worker("a", incarnation="a-2")), found).kind is ActionKind.STOP
    assert only(spec_of(worker("a", desired=WorkerDesired.STOP)), found).kind is ActionKind.STOP


def test_a_worker_backs_off_until_its_time_has_come() -> None:
    gone = view("a", ProcessState.GONE, next_start=NOW + 1)
    assert only(spec_of(worker("a")), gone).kind is ActionKind.WAIT
    assert only(spec_of(worker("a")), replace(gone, next_start=NOW)).kind is ActionKind.START


def test_a_raised_restart_number_clears_back_off_and_failure() -> None:
    for gone in (
        view("a", ProcessState.GONE, next_start=NOW + 100),
        view("a", ProcessState.GONE, failed=True),
    ):
        assert only(spec_of(worker("a", restart=0)), gone).kind in (ActionKind.WAIT, ActionKind.KEEP)
        assert only(spec_of(worker("a", restart=1)), gone) == Action(ActionKind.START, "a", "retried by an operator")


def test_a_new_incarnation_does_not_inherit_failure() -> None:
    failed = view("a", ProcessState.GONE, failed=True)
    assert only(spec_of(worker("a", incarnation="a-2")), failed).kind is ActionKind.START


def test_a_broken_process_is_killed_even_while_it_drains() -> None:
    broken = view("a", fault="the engine loop is stuck", draining=True, drain_deadline=NOW + 10)
    assert only(spec_of(worker("a")), broken) == Action(ActionKind.KILL, "a", "the engine loop is stuck")
    assert only(spec_of(worker("a", desired=WorkerDesired.DRAIN)), broken).kind is ActionKind.KILL


def test_a_drain_goes_from_order_to_confirmation_to_stop() -> None:
    spec = spec_of(worker("a", desired=WorkerDesired.DRAIN))
    assert only(spec, view("a")).kind is ActionKind.DRAIN
    assert only(spec, view("a", drain_deadline=NOW + 9)).kind is ActionKind.DRAIN, "not confirmed: ordered again"
    assert only(spec, view("a", draining=True, drain_deadline=NOW + 9)).kind is ActionKind.KEEP
    assert only(spec, view("a", draining=True, idle=True, drain_deadline=NOW + 9)).kind is ActionKind.STOP
    assert only(spec, view("a", drain_deadline=NOW)).kind is ActionKind.STOP


def test_a_drain_of_what_never_served_is_a_stop_and_not_known_is_not_never() -> None:
    spec = spec_of(worker("a", desired=WorkerDesired.DRAIN))
    assert only(spec, view("a", served=False)).kind is ActionKind.STOP
    assert only(spec, view("a", served=None)).kind is ActionKind.DRAIN


def test_a_drain_is_called_off_when_the_worker_is_wanted_again() -> None:
    spec = spec_of(worker("a"))
    assert only(spec, view("a", draining=True, drain_deadline=NOW + 9)).kind is ActionKind.UNDRAIN
    assert only(spec, view("a", draining=True)).kind is ActionKind.UNDRAIN, "until the worker confirms it"


def test_a_device_in_use_keeps_the_next_worker_waiting_and_says_for_whom() -> None:
    spec = spec_of(worker("b", device="gpu-0"))
    stopping = view("a", ProcessState.STOPPING, device_ids=frozenset({"gpu-0"}))
    actions = {action.worker_id: action for action in diff(spec, [stopping], NOW)}
    assert actions["b"] == Action(ActionKind.WAIT, "b", "waits for device gpu-0, which worker a holds")


def test_two_workers_that_want_one_device_do_not_both_start() -> None:
    actions = diff(spec_of(worker("a", device="gpu-0"), worker("b", device="gpu-0")), (), NOW)
    assert [action.kind for action in actions] == [ActionKind.START, ActionKind.WAIT]


FLIPPED = spec_of(worker("a", role=Role.PREFILL))
DRAINED = view("a", draining=True, idle=True, drain_deadline=NOW + 9)


def test_another_role_is_drained_for_and_then_switched_to() -> None:
    assert only(FLIPPED, view("a")) == Action(ActionKind.DRAIN, "a", "finishes what it has, then becomes prefill")
    busy = view("a", draining=True, drain_deadline=NOW + 9)
    assert only(FLIPPED, busy) == Action(ActionKind.KEEP, "a", "drains, then becomes prefill")
    assert only(FLIPPED, DRAINED) == Action(ActionKind.SWITCH, "a", "is drained and becomes prefill")


def test_a_change_of_role_that_is_taken_back_while_draining_is_an_undrain() -> None:
    assert only(spec_of(worker("a")), DRAINED).kind is ActionKind.UNDRAIN


def test_a_worker_that_becomes_empty_too_late_is_started_anew_in_the_other_role() -> None:
    late = view("a", draining=True, drain_deadline=NOW)
    assert only(FLIPPED, late) == Action(
        ActionKind.STOP, "a", "the drain deadline has passed; it is started anew as prefill"
    )
    assert only(FLIPPED, replace(late, state=ProcessState.GONE)).kind is ActionKind.START


def test_an_order_to_switch_is_brought_to_its_end_whatever_is_wanted_meanwhile() -> None:
    switching = view("a", draining=True, idle=True, switch_deadline=NOW + 5)
    for spec in (FLIPPED, spec_of(worker("a"))):
        assert only(spec, switching) == Action(ActionKind.KEEP, "a", "changes its role")
    late = replace(switching, switch_deadline=NOW)
    assert only(FLIPPED, late) == Action(
        ActionKind.KILL, "a", "hung in a change of its role; it is started anew as prefill"
    )


def test_a_worker_that_is_to_go_for_good_while_it_switches_is_stopped_and_not_waited_for() -> None:
    switching = replace(DRAINED, switch_deadline=NOW + 5)
    assert only(spec_of(worker("a", desired=WorkerDesired.DRAIN)), switching).kind is ActionKind.STOP
    assert only(spec_of(worker("a", desired=WorkerDesired.STOP)), switching).kind is ActionKind.STOP


def test_a_refused_role_is_not_tried_again_and_the_worker_serves_on() -> None:
    refused = view("a", refused_role=Role.PREFILL)
    assert only(FLIPPED, refused) == Action(ActionKind.KEEP, "a", "stays decode: it could not become prefill")
    assert only(FLIPPED, replace(refused, draining=True)).kind is ActionKind.UNDRAIN
    assert only(spec_of(worker("a")), refused).kind is ActionKind.KEEP


def test_an_engine_that_can_not_switch_is_drained_and_started_anew() -> None:
    rigid = replace(DRAINED, switches_role=False)
    action = only(FLIPPED, rigid)
    assert action.kind is ActionKind.STOP
    assert action.reason == ("is drained; as its engine can't turn decode into prefill, it is started anew as prefill")
    assert only(FLIPPED, replace(rigid, draining=False, idle=False)).kind is ActionKind.DRAIN


def test_unified_is_a_role_like_the_others() -> None:
    unified = spec_of(worker("a", role=Role.UNIFIED))
    assert only(unified, DRAINED).kind is ActionKind.SWITCH
    assert only(FLIPPED, replace(DRAINED, role=Role.UNIFIED)).kind is ActionKind.SWITCH


def test_a_worker_that_still_loads_goes_on_loading_and_one_that_can_not_switch_starts_anew() -> None:
    loading = view("a", served=False)
    assert only(FLIPPED, loading) == Action(ActionKind.KEEP, "a", "loads first, then becomes prefill")
    assert only(FLIPPED, replace(loading, switches_role=False)).kind is ActionKind.STOP


def test_a_broken_worker_is_killed_before_its_role_matters() -> None:
    assert only(FLIPPED, replace(DRAINED, fault="is stuck")).kind is ActionKind.KILL


# -- properties, on a small world that obeys the actions ------------------------------------------------------------

workers = st.builds(
    lambda worker_id, incarnation, role, desired, devices, restart: worker(
        worker_id,
        role=role,
        incarnation=f"{worker_id}-{incarnation}",
        desired=desired,
        devices=tuple(DeviceAssignment(device_id=device, kind="gpu", index=0) for device in sorted(devices)),
        restart=restart,
    ),
    st.sampled_from(IDS),
    st.integers(1, 2),
    st.sampled_from(Role),
    st.sampled_from(WorkerDesired),
    st.sets(st.sampled_from(DEVICES), min_size=1),
    st.integers(0, 1),
)
specs = st.lists(workers, max_size=3, unique_by=lambda spec: spec.worker_id).map(lambda listed: spec_of(*listed))
views = st.builds(
    lambda worker_id, incarnation, role, switches, state, served, draining, deadline, fault, failed, next_start: (
        ProcessView(
            worker_id=worker_id,
            role=role,
            switches_role=switches,
            incarnation=f"{worker_id}-{incarnation}",
            device_ids=frozenset({f"own-{worker_id}"}),
            state=state,
            served=served,
            draining=draining,
            drain_deadline=deadline,
            fault=fault,
            failed=failed,
            next_start=next_start,
        )
    ),
    st.sampled_from(IDS),
    st.integers(1, 2),
    st.sampled_from(Role),
    st.booleans(),
    st.sampled_from(ProcessState),
    st.sampled_from([True, False, None]),
    st.booleans(),
    st.sampled_from([None, NOW - 1, NOW + 5]),
    st.sampled_from([None, "is broken"]),
    st.booleans(),
    st.sampled_from([None, NOW - 1, NOW + 5]),
)
worlds = st.lists(views, max_size=3, unique_by=lambda view: view.worker_id)


def obey(world: dict[str, ProcessView], action: Action, spec: NodeSpec) -> None:
    """Do `action`, checking that it is possible and safe at this moment."""
    wanted = {listed.worker_id: listed for listed in spec.workers}
    present = world.get(action.worker_id)
    match action.kind:
        case ActionKind.START:
            start = wanted[action.worker_id]
            assert present is None or not present.alive, "two processes for one worker"
            held = {device for other in world.values() if other.alive for device in other.device_ids}
            assert not held & device_ids(start), "a device for two processes"
            world[action.worker_id] = ProcessView(
                worker_id=start.worker_id,
                incarnation=start.incarnation,
                role=start.role,
                switches_role=True,
                device_ids=device_ids(start),
                state=ProcessState.RUNNING,
                served=True,
                restart=start.restart,
            )
        case ActionKind.FORGET:
            assert present is not None
            assert not present.alive
            del world[action.worker_id]
        case ActionKind.WAIT | ActionKind.KEEP:
            pass
        case _:
            assert present is not None
            assert present.alive
            assert present.state is not ProcessState.STOPPING, "is being ended already"
            if action.kind is ActionKind.SWITCH:
                assert present.draining, "is switched though it takes requests"
                assert present.idle, "is switched though it holds requests"
                assert present.role is not wanted[action.worker_id].role
                world[action.worker_id] = replace(
                    present, role=wanted[action.worker_id].role, draining=False, idle=False, drain_deadline=None
                )
                return
            world[action.worker_id] = replace(present, **_effect(action.kind))


def _effect(kind: ActionKind) -> dict[str, object]:
    return {
        ActionKind.STOP: {"state": ProcessState.STOPPING},
        ActionKind.KILL: {"state": ProcessState.STOPPING},
        ActionKind.ADOPT: {"state": ProcessState.RUNNING},
        ActionKind.DRAIN: {"draining": True, "drain_deadline": NOW + 5},
        ActionKind.UNDRAIN: {"draining": False, "drain_deadline": None},
    }[kind]


def pass_time(world: dict[str, ProcessView]) -> None:
    """What was told to exit is gone, what loaded is ready, what drained is empty, and back-offs are over."""
    for worker_id, present in world.items():
        state = ProcessState.GONE if present.state is ProcessState.STOPPING else present.state
        world[worker_id] = replace(
            present, state=state, served=True, idle=present.draining, fault=None, next_start=None
        )


@given(specs, worlds)
def test_every_worker_gets_exactly_one_action_and_the_answer_is_always_the_same(
    spec: NodeSpec, world: list[ProcessView]
) -> None:
    actions = diff(spec, world, NOW)
    concerned = {listed.worker_id for listed in spec.workers} | {present.worker_id for present in world}
    assert sorted(action.worker_id for action in actions) == sorted(concerned)
    assert diff(spec, world, NOW) == actions
    assert all(action.reason for action in actions)


@given(st.lists(specs, min_size=1, max_size=4), worlds)
def test_actions_are_safe_in_their_order_whatever_the_specs(sequence: list[NodeSpec], found: list[ProcessView]) -> None:
    world = {present.worker_id: present for present in found}
    for spec in sequence:
        for action in diff(spec, list(world.values()), NOW):
            obey(world, action, spec)
        pass_time(world)


@given(st.lists(specs, min_size=1, max_size=3), worlds)
def test_a_world_that_obeys_becomes_what_the_last_spec_wants(
    sequence: list[NodeSpec], found: list[ProcessView]
) -> None:
    world = {present.worker_id: replace(present, failed=False) for present in found}
    for spec in [*sequence, *[sequence[-1]] * 6]:
        for action in diff(spec, list(world.values()), NOW):
            obey(world, action, spec)
        pass_time(world)
    spec = sequence[-1]
    assert changes(diff(spec, list(world.values()), NOW)) == ()
    alive = {present.worker_id: present for present in world.values() if present.alive}
    held = {device for present in alive.values() for device in present.device_ids}
    assert world.keys() <= {listed.worker_id for listed in spec.workers}
    for listed in spec.workers:
        if listed.desired is not WorkerDesired.RUN:
            assert listed.worker_id not in alive
        elif listed.worker_id in alive:
            assert alive[listed.worker_id].incarnation == listed.incarnation
            assert alive[listed.worker_id].role is listed.role
            assert not alive[listed.worker_id].draining
        else:
            assert device_ids(listed) & held, "is missing though its devices are free"
