"""Claims about a deployment's life: what runs where, what operators are told, and what nodes are sent."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from controlplane.fleet.models import Node
from controlplane.pools.models import Allocation, Deployment, Pool, Worker
from inference.contracts.console import DeploymentChanged, DeploymentRemoved
from inference.contracts.reports import WorkerLoad
from inference.contracts.states import DeviceKind, OperationState, WorkerDesired, WorkerPhase
from tests.control.pools.world import World


@pytest.mark.postgres
def test_a_deployment_comes_up_and_its_operation_tells_how(world: World) -> None:
    world.node("a")
    operation = world.deploy(prefill=1, decode=1)
    assert world.phases() == {"decode-1": "assigned", "prefill-1": "assigned"}

    world.report()
    world.come_up()

    assert world.phases() == {"decode-1": "ready", "prefill-1": "ready"}
    operation = world.operation(operation)
    assert operation.state == OperationState.SUCCEEDED
    assert operation.outcome == "1 prefill and 1 decode worker ready."
    steps = operation.steps.all()
    assert [step.text for step in steps] == ["decode-1 is ready", "prefill-1 is ready"]
    assert all(step.finished_at is not None and step.finished_at > step.started_at for step in steps)


def test_the_node_gets_everything_a_worker_needs(world: World) -> None:
    agent = world.node("a")
    world.deploy(prefill=1, decode=1)

    spec = world.specs[-1]
    worker = world.worker("decode-1")
    sent = next(each for each in spec.workers if each.worker_id == str(worker.pk))
    assert (spec.node_id, spec.generation) == (agent.node_id, 1)
    assert (sent.model_path, sent.model_name, sent.deployment) == ("/models/tiny", "m", "m")
    assert sent.incarnation == str(worker.incarnation)
    assert sent.desired == WorkerDesired.RUN
    assert [device.device_id for device in sent.devices] == [worker.allocations.get().device.device_id]
    assert sent.devices[0].cores == (sent.devices[0].index,)


@pytest.mark.postgres
def test_growing_starts_a_worker_and_shrinking_drains_one(world: World) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()

    grown = world.resize("decode", 2).operation
    assert grown is not None
    assert world.phases()["decode-2"] == "assigned"
    world.come_up()
    assert world.operation(grown).state == OperationState.SUCCEEDED
    assert world.steps(grown) == ["decode-2 is ready"]

    shrunk = world.resize("decode", 1).operation
    assert shrunk is not None
    assert world.wanted()["decode-2"] == "drain"
    world.report()
    assert world.operation(shrunk).state == OperationState.RUNNING
    world.finish_drains()
    assert world.operation(shrunk).state == OperationState.SUCCEEDED
    assert world.steps(shrunk)[-1] == "decode-2 is gone"
    assert set(world.phases()) == {"prefill-1", "decode-1"}
    assert Allocation.objects.count() == 2


def test_a_drain_counts_down_the_answers_that_are_left(world: World) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.resize("decode", 2)
    world.come_up()
    told = []
    for left in (2, 1):
        world.process("decode-1").load = world.process("decode-2").load = WorkerLoad(
            running=left, waiting=0, waiting_tokens=0, kv_blocks_used=9, kv_blocks_total=100
        )
        world.report()
        operation = world.resize("decode", 1).operation
        assert operation is not None
        told += world.steps(operation)

    assert told == ["decode-2 is draining: 2 answers left", "decode-2 is draining: 1 answer left"]
    assert operation.steps.count() == 1, "one step that goes on, not one for each answer"


def test_growing_during_a_drain_takes_the_worker_back(world: World) -> None:
    """F09: no stream is cut, nothing is loaded again."""
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.resize("decode", 2)
    world.come_up()
    before = {worker.pk: worker.incarnation for worker in Worker.objects.all()}
    shrunk = world.resize("decode", 1).operation
    world.report()
    assert world.phases()["decode-2"] == "draining"

    grown = world.resize("decode", 2).operation
    world.report()

    assert shrunk is not None
    assert grown is not None
    assert world.operation(shrunk).state == OperationState.SUPERSEDED
    assert world.operation(grown).state == OperationState.SUCCEEDED
    assert world.phases()["decode-2"] == "ready"
    assert {worker.pk: worker.incarnation for worker in Worker.objects.all()} == before


def test_resizing_one_pool_after_the_other_never_holds_more_devices_than_there_are(world: World) -> None:
    """F22: four devices, 1P3D to 3P1D in the order in which a person would do it by hand. Nothing is started in vain:
    once decode may shrink, its workers change over."""
    world.node("a", slots=4)
    world.deploy(prefill=1, decode=3)
    world.come_up()

    grown = world.resize("prefill", 3).operation
    assert world.pool("prefill").refusals == "prefill needs 2 free CPU slots: 4 CPU slots, all taken"
    shrunk = world.resize("decode", 1).operation
    assert world.pool("prefill").refusals == ""
    assert Allocation.objects.count() == 4

    world.report()
    world.finish_drains()
    assert world.phases() == dict.fromkeys(("decode-3", "prefill-1", "prefill-2", "prefill-3"), "ready")
    assert Allocation.objects.count() == 4
    assert grown is not None
    assert shrunk is not None
    assert world.operation(grown).state == world.operation(shrunk).state == OperationState.SUCCEEDED


def test_freed_devices_are_offered_to_other_deployments_at_once(world: World) -> None:
    world.node("a", slots=4)
    world.deploy(unified=2)
    world.deploy(name="other", unified=2)
    world.come_up()
    world.resize("unified", 3)
    assert Pool.objects.get(deployment__name="m").refusals

    world.delete("other")
    world.finish_drains()

    assert Worker.objects.filter(pool__deployment__name="m").count() == 3


def test_a_stuck_start_can_be_lowered_while_it_starts(world: World) -> None:
    """F22: a worker that never becomes ready does not hold its pool."""
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    world.resize("decode", 2)
    world.report()
    assert world.phases()["decode-2"] == "starting"

    shrunk = world.resize("decode", 1).operation
    world.report()

    assert shrunk is not None
    assert world.operation(shrunk).state == OperationState.SUCCEEDED
    assert "decode-2" not in world.phases()


def test_a_worker_that_failed_fails_the_operation_with_its_reason_and_is_not_replaced(world: World) -> None:
    """F11: an end state, with the reason; other pools are untouched."""
    world.node("a")
    operation = world.deploy(prefill=1, decode=1)
    world.come_up()
    grown = world.resize("decode", 2).operation
    process = world.process("decode-2")
    process.phase, process.reason, process.log_tail = WorkerPhase.FAILED, "out of memory", ("last line",)
    world.report()
    world.sweep()

    assert grown is not None
    assert world.operation(grown).state == OperationState.FAILED
    assert world.operation(grown).outcome == "decode-2 failed: out of memory"
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert Worker.objects.count() == 3
    assert world.worker("decode-2").log_tail == "last line"


def test_an_operation_that_never_gets_its_devices_fails_at_the_deadline_and_says_why(
    world: World, settings: Settings
) -> None:
    settings.OPERATION_DEADLINE_S = 30
    world.node("a", slots=2)
    world.deploy(prefill=1, decode=1)
    world.come_up()
    operation = world.resize("decode", 2).operation
    assert operation is not None
    assert world.operation(operation).state == OperationState.RUNNING

    for _ in range(7):
        world.now.advance(5)
        world.report()
        world.sweep()

    assert world.operation(operation).state == OperationState.FAILED
    assert world.operation(operation).outcome == (
        "Not done after 30 s: decode needs 1 free CPU slot: 2 CPU slots, all taken. What was asked for stays wanted."
    )
    assert world.pool("decode").replicas == 2


@pytest.mark.postgres
def test_deleting_drains_everything_and_then_forgets_it(world: World) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    operation = world.delete()
    assert set(world.wanted().values()) == {"drain"}
    assert world.delete() == operation

    world.finish_drains()

    assert not Deployment.objects.exists()
    assert not Allocation.objects.exists()
    assert world.operation(operation).state == OperationState.SUCCEEDED
    assert DeploymentRemoved(name="m") in world.outbox.events
    assert world.agents["a"].processes == {}


def test_deleting_supersedes_the_resizes_of_its_pools(world: World) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    resize = world.resize("decode", 2).operation
    world.delete()

    assert resize is not None
    assert world.operation(resize).state == OperationState.SUPERSEDED


def test_a_satisfied_deployment_is_left_alone_however_often_it_is_looked_at(world: World) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    generation = Node.objects.get(name="a").generation
    world.specs.clear()
    world.outbox.events.clear()

    for _ in range(3):
        world.sweep()
        world.report()

    assert world.specs == []
    assert Node.objects.get(name="a").generation == generation
    assert not any(isinstance(event, DeploymentChanged) for event in world.outbox.events)


def test_workers_of_unlike_fingerprints_are_shown_with_both_values_and_fail_the_deployment(world: World) -> None:
    """F06: both are healthy by themselves, and no pair can serve."""
    world.node("a")
    operation = world.deploy(prefill=1, decode=1)
    world.process("prefill-1").fingerprint = "block-size-16"
    world.process("decode-1").fingerprint = "block-size-32"
    world.come_up()

    assert world.operation(operation).state == OperationState.FAILED
    assert "block-size-1" in world.operation(operation).outcome
    assert "block-size-3" in world.operation(operation).outcome


def test_gpus_and_cpu_slots_are_not_mixed_in_one_deployment(world: World) -> None:
    world.node("a", slots=2, kind=DeviceKind.GPU)
    world.node("b", slots=2)
    world.deploy(prefill=1, decode=1)

    assert {allocation.device.kind for allocation in Allocation.objects.all()} == {DeviceKind.GPU}
