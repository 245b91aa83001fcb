"""Claims about rolling a new revision out and back: in steps, by its health, on a full fleet, always in pairs."""

from __future__ import annotations

from itertools import pairwise

import pytest

from controlplane.core.errors import Conflict, Invalid
from controlplane.pools import services
from controlplane.pools.models import Allocation, Rollout, Worker
from controlplane.telemetry.models import RollUp
from inference.contracts import codec
from inference.contracts.rollout import RolloutPolicy
from inference.contracts.specs import EngineSettings
from inference.contracts.states import OperationState, WorkerPhase
from inference.contracts.timings import Counter, Latency, Window
from tests.control.pools.world import World

pytestmark = pytest.mark.postgres

#: One pair at a time, as soon as it is ready.
AT_ONCE = RolloutPolicy(observe_s=0, min_requests=0)

#: Stays at its first pair for as long as any test lasts.
SLOW = RolloutPolicy(observe_s=1000, min_requests=0)
NEW = EngineSettings(block_size=32)


@pytest.fixture
def full(world: World) -> World:
    """Four devices, all held: 2 prefill, 2 decode."""
    world.node("a", slots=4)
    world.deploy(prefill=2, decode=2, slo_ttft_s=1.0)
    world.come_up()
    return world


def turn(world: World) -> None:
    """A while: drains end, processes come up (each revision with a fingerprint of its own), a sweep looks."""
    world.report()
    world.finish_drains()
    for agent in world.agents.values():
        for process in agent.processes.values():
            process.fingerprint = f"revision-{process.spec.revision}"
    world.come_up()
    world.sweep()


def did(world: World, revision: int, *, completed: int = 0, failed: int = 0, slow: int = 0) -> None:
    """What routers counted of a revision, as telemetry wrote it down."""
    window = Window(second=0, source="", deployment="m", revision=revision)
    window.counters = {Counter.COMPLETED: completed, Counter.FAILED: failed}
    window.observe(Latency.TTFT, 0.1, completed - slow)
    window.observe(Latency.TTFT, 5.0, slow)
    RollUp.objects.create(
        deployment="m", revision=revision, second=int(world.now().timestamp()), window=codec.encode_text(window)
    )


def revisions(world: World) -> dict[int, int]:
    counted: dict[int, int] = {}
    for (_, revision), count in world.serving().items():
        counted[revision] = counted.get(revision, 0) + count
    return counted


def test_a_deployment_of_one_pair_is_told_that_nothing_is_tried_on_some_requests_first(world: World) -> None:
    world.node("a", slots=4)
    world.deploy(prefill=1, decode=1)
    world.come_up()
    operation = world.roll_out(settings=NEW, policy=SLOW)

    assert operation.preview is not None
    assert list(operation.preview["warnings"]) == [
        "Revision 2 takes all requests at once, without having been tried on some of them: there is nothing to share "
        "them with."
    ]


def test_a_deployment_that_shrinks_to_one_pair_in_the_middle_keeps_the_stable_one(full: World) -> None:
    full.roll_out(settings=NEW, policy=SLOW)
    turn(full)
    assert revisions(full) == {1: 2, 2: 2}
    for role in ("prefill", "decode"):
        full.resize(role, 1)
        turn(full)

    assert revisions(full) == {1: 2}
    full.now.advance(1001)
    full.sweep()
    turn(full)
    turn(full)
    assert revisions(full) == {2: 2}, "at its last step it serves all, and is judged by them"


def test_pairs_move_together_on_a_full_fleet_and_something_always_serves(full: World) -> None:
    operation = full.roll_out(settings=NEW, policy=AT_ONCE)
    seen = [full.serving()]
    for _ in range(12):
        turn(full)
        seen.append(full.serving())
        assert Allocation.objects.count() <= 4
        paired = {revision for (_, revision) in seen[-1]}
        assert any(seen[-1][("prefill", revision)] and seen[-1][("decode", revision)] for revision in paired), (
            "a pair of one revision takes requests at every moment"
        )

    assert full.outcome(operation) == (OperationState.SUCCEEDED, "Revision 2 serves.")
    assert full.serving() == {("prefill", 2): 2, ("decode", 2): 2}
    deployment = full.deployment()
    assert (deployment.stable, deployment.previous) == (2, 1)
    assert not Rollout.objects.exists()
    assert all(before.get(("decode", 2), 0) <= after.get(("decode", 2), 0) for before, after in pairwise(seen))


def test_workers_are_told_what_their_revision_is(full: World) -> None:
    full.roll_out(settings=NEW, policy=SLOW, note="larger blocks")
    for _ in range(3):
        turn(full)
    specs = {process.spec.revision: process.spec for process in full.agents["a"].processes.values()}

    assert specs[2].settings.block_size == 32
    assert specs[1].settings.block_size == 16
    assert full.deployment().revisions.get(number=2).note == "larger blocks"


def test_while_it_goes_on_only_matching_fingerprints_pair(full: World) -> None:
    """F06: old and new look healthy by themselves, and nobody is blamed for not matching the other revision."""
    full.roll_out(settings=NEW, policy=SLOW)
    for _ in range(4):
        turn(full)
    assert full.serving() == {("prefill", 1): 1, ("decode", 1): 1, ("prefill", 2): 1, ("decode", 2): 1}

    for pool in full.view().pools:
        assert pool.refusals == ()
        assert [worker.reason for worker in pool.workers] == ["", ""]


def test_it_waits_for_observation_and_requests_and_says_so(full: World) -> None:
    operation = full.roll_out(settings=NEW, policy=RolloutPolicy(observe_s=60, min_requests=5))
    for _ in range(4):
        turn(full)
    assert "observed for" in full.steps(operation)[0]
    full.now.advance(60)
    full.sweep()
    assert full.steps(operation)[0] == (
        "50% of the workers: has 0 of the 5 requests that it is judged by, and goes on without more in 218 s"
    )
    assert full.operation(operation).state == OperationState.RUNNING

    did(full, 2, completed=5)
    full.sweep()
    assert Rollout.objects.get().share == 1.0
    view = full.view().rollout
    assert view is not None
    assert (view.stable, view.candidate, view.wanted, view.total) == (1, 2, 4, 4)


def test_too_many_errors_take_it_back_by_themselves_with_the_reason(full: World) -> None:
    operation = full.roll_out(settings=NEW, policy=RolloutPolicy(observe_s=0, min_requests=10))
    for _ in range(4):
        turn(full)
    assert revisions(full)[2] == 2
    did(full, 2, completed=12, failed=8)
    full.sweep()
    assert full.operation(operation).state == OperationState.RUNNING, "until the old revision serves everywhere again"
    for _ in range(6):
        turn(full)

    state, outcome = full.outcome(operation)
    assert state == OperationState.FAILED
    assert outcome == "Back at revision 1: 40.0% of 20 requests failed, more than 5.0%."
    assert full.serving() == {("prefill", 1): 2, ("decode", 1): 2}
    assert full.deployment().stable == 1
    back = full.operation(operation).steps.get(key="taken back")
    assert (back.state, back.cause) == ("done", "40.0% of 20 requests failed, more than 5.0%")


def test_too_many_misses_of_what_is_promised_take_it_back(full: World) -> None:
    operation = full.roll_out(settings=NEW, policy=RolloutPolicy(observe_s=0, min_requests=10))
    for _ in range(4):
        turn(full)
    did(full, 2, completed=20, slow=10)
    for _ in range(6):
        turn(full)

    assert "50.0% of 20 requests missed what is promised" in full.outcome(operation)[1]


def test_what_the_old_revision_does_is_not_held_against_the_new_one(full: World) -> None:
    operation = full.roll_out(settings=NEW, policy=RolloutPolicy(observe_s=0, min_requests=10))
    for _ in range(4):
        turn(full)
    did(full, 1, completed=1, failed=99)
    did(full, 2, completed=10)
    for _ in range(6):
        turn(full)

    assert full.operation(operation).state == OperationState.SUCCEEDED


def test_a_worker_that_can_not_start_takes_it_back_while_the_rest_serves(full: World) -> None:
    operation = full.roll_out(settings=NEW, policy=AT_ONCE)
    for _ in range(2):
        full.report()
        full.finish_drains()
    for process in full.agents["a"].processes.values():
        if process.spec.revision == 2:
            process.phase, process.reason = WorkerPhase.FAILED, "out of memory"
    full.report()
    for _ in range(6):
        turn(full)

    state, outcome = full.outcome(operation)
    assert state == OperationState.FAILED
    assert outcome.startswith("Back at revision 1: ")
    assert "out of memory" in outcome
    assert full.serving() == {("prefill", 1): 2, ("decode", 1): 2}


def test_it_is_paused_at_its_share_and_resumed(full: World) -> None:
    operation = full.roll_out(settings=NEW, policy=AT_ONCE)
    full.ask(services.rollout_pause, name="m")
    for _ in range(5):
        turn(full)
    assert revisions(full) == {1: 2, 2: 2}
    full.ask(services.rollout_resume, name="m")
    for _ in range(8):
        turn(full)

    assert full.operation(operation).state == OperationState.SUCCEEDED
    assert [step for step in full.steps(operation) if "ada" in step] == [
        "ada paused it at 50%",
        "ada resumed it at 50%",
    ]


def test_taken_back_by_hand_the_old_revision_serves_everywhere_again(full: World) -> None:
    operation = full.roll_out(settings=NEW, policy=SLOW)
    for _ in range(3):
        turn(full)
    cancelled = full.cancel(operation)
    for _ in range(6):
        turn(full)

    assert (cancelled.state, "goes back to revision 1" in cancelled.outcome) == (OperationState.CANCELLED, True)
    assert full.serving() == {("prefill", 1): 2, ("decode", 1): 2}


def test_an_earlier_revision_serves_again_at_once(full: World) -> None:
    full.roll_out(settings=NEW, policy=AT_ONCE)
    for _ in range(12):
        turn(full)
    operation = full.roll_back()
    assert operation.after == "revision 1: tiny"
    for _ in range(12):
        turn(full)

    assert full.outcome(operation) == (OperationState.SUCCEEDED, "Revision 1 serves.")
    assert full.serving() == {("prefill", 1): 2, ("decode", 1): 2}
    assert full.deployment().previous == 2


def test_a_roll_back_ends_a_roll_out_that_goes_on(full: World) -> None:
    rollout = full.roll_out(settings=NEW, policy=SLOW)
    for _ in range(3):
        turn(full)
    back = full.roll_back()
    for _ in range(6):
        turn(full)

    assert full.operation(rollout).state == OperationState.SUPERSEDED
    assert full.outcome(back) == (OperationState.SUCCEEDED, "Revision 1 serves.")
    assert full.serving() == {("prefill", 1): 2, ("decode", 1): 2}


def test_there_is_one_roll_out_at_a_time_and_pools_may_be_resized_meanwhile(full: World) -> None:
    first = full.roll_out(settings=NEW, policy=SLOW)
    with pytest.raises(Conflict) as refused:
        full.roll_out(settings=EngineSettings(block_size=8))
    assert str(first.pk) in str(refused.value.current)

    resize = full.resize("decode", 1).operation
    for _ in range(6):
        turn(full)
    assert resize is not None
    assert full.operation(resize).state == OperationState.SUCCEEDED
    assert Worker.objects.filter(pool__role="decode").count() == 1


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"settings": EngineSettings()}, "has this model and these settings already"),
        ({"model": "huge"}, "no model named 'huge'"),
        ({"settings": EngineSettings(block_size=0)}, "at least 1"),
        ({"policy": RolloutPolicy(step=2.0)}, "at most 1"),
    ],
)
def test_what_can_not_be_rolled_out_is_refused(full: World, wanted: dict, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        full.roll_out(**wanted)
    assert full.deployment().revisions.count() == 1


def test_without_an_earlier_revision_there_is_nothing_to_go_back_to(full: World) -> None:
    with pytest.raises(Conflict, match="no other revision"):
        full.roll_back()
    with pytest.raises(Invalid, match="has no revision 7; it has 1"):
        full.roll_back(to=7)


def test_a_deployment_that_is_deleted_in_the_middle_goes(full: World) -> None:
    full.roll_out(settings=NEW, policy=SLOW)
    for _ in range(3):
        turn(full)
    operation = full.delete()
    for _ in range(3):
        full.report()
        full.finish_drains()

    assert full.operation(operation).state == OperationState.SUCCEEDED
    assert not Worker.objects.exists()


def test_a_worker_that_changes_its_role_in_the_middle_keeps_its_revision_and_the_roll_out_goes_on(world: World) -> None:
    world.node("a", slots=6)
    world.deploy(prefill=3, decode=3)
    world.come_up()
    rolling = world.roll_out(settings=NEW, policy=SLOW)
    for _ in range(3):
        turn(world)
    assert world.serving() == {("prefill", 1): 2, ("prefill", 2): 1, ("decode", 1): 2, ("decode", 2): 1}
    old = Worker.objects.filter(pool__role="decode", revision__number=1)[0]
    flip = world.flip(old.name)
    old.refresh_from_db()
    assert (old.pool.role, old.revision.number) == ("prefill", 1)
    for _ in range(6):
        turn(world)
        assert {(role, revision) for role in ("prefill", "decode") for revision in (1, 2)} == set(world.serving())
    assert world.operation(flip).state == OperationState.SUCCEEDED

    services.deployment_change(name="m", policy=AT_ONCE)
    for _ in range(16):
        turn(world)
    assert world.serving() == {("prefill", 2): 4, ("decode", 2): 2}
    assert world.operation(rolling).state == OperationState.SUCCEEDED
