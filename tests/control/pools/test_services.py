"""Claims about what operators may ask for, and what a refusal leaves behind: nothing."""

from __future__ import annotations

from uuid import uuid4

import pytest

from controlplane.core.errors import Conflict, ControlError, Invalid, NotFound, StaleGeneration
from controlplane.fleet.models import Link, LinkMeasurement
from controlplane.operations.models import Operation
from controlplane.pools import services
from controlplane.pools.models import Deployment, Pool
from controlplane.pools.seeing import snapshot
from controlplane.pools.services import Shape
from inference.contracts import names
from inference.contracts.specs import EngineSettings
from inference.contracts.states import OperationKind, OperationState, Role
from tests.control.conftest import OPERATOR
from tests.control.pools.world import World


@pytest.fixture
def pair(world: World) -> World:
    world.node("a", slots=4)
    world.deploy(prefill=1, decode=1)
    world.come_up()
    return world


@pytest.mark.parametrize(
    ("wanted", "field", "says"),
    [
        ({"name": "", "prefill": 1, "decode": 1}, "name", "''"),
        ({"name": "a/b", "prefill": 1, "decode": 1}, "name", "'a/b'"),
        ({"name": "x" * 101, "prefill": 1, "decode": 1}, "name", "1 to 100"),
        ({"prefill": -1, "decode": 1}, "prefill", "not -1"),
        ({"prefill": 1, "decode": 65}, "decode", "not 65"),
        ({"prefill": 0, "decode": 1}, "prefill", "at least 1 prefill worker"),
        ({"prefill": 1, "decode": 0}, "decode", "at least 1 decode worker"),
        ({"prefill": 1, "decode": 1, "unified": 1}, "unified", "alone"),
        ({"prefill": 1, "decode": 1, "local_prefill_tokens": -1}, "local_prefill_tokens", "not -1"),
        ({"prefill": 1, "decode": 1, "settings": EngineSettings(dtype="int3")}, "settings.dtype", "'int3'"),
        ({"prefill": 1, "decode": 1, "settings": EngineSettings(kv_tokens=0)}, "settings.kv_tokens", "not 0"),
        ({"prefill": 1, "decode": 1, "settings": EngineSettings(max_running=0)}, "settings.max_running", "at least 1"),
        ({"prefill": 1, "decode": 1, "settings": EngineSettings(kv_tokens=8)}, "settings.kv_tokens", "one block"),
        ({"prefill": 1, "decode": 4}, "decode", "decode needs 1 free CPU slot: 4 CPU slots, all taken"),
    ],
)
def test_a_deployment_that_cannot_be_is_refused_with_its_field(
    world: World, wanted: dict, field: str, says: str
) -> None:
    world.node("a", slots=4)
    with pytest.raises(Invalid) as refused:
        world.deploy(**wanted)

    assert refused.value.field == field
    assert says in refused.value.message
    assert not Deployment.objects.exists()
    assert not Operation.objects.exists()
    assert world.outbox.tasks == []


def test_a_model_that_the_catalogue_does_not_have_is_refused(world: World) -> None:
    with pytest.raises(Invalid, match="no model named 'huge'") as refused:
        services.deployment_create(name="m", model="huge", shape=Shape(counts={Role.UNIFIED: 1}), requested_by=OPERATOR)

    assert refused.value.field == "model"


def test_a_taken_name_is_a_conflict(pair: World) -> None:
    with pytest.raises(Conflict, match="'m' exists already") as refused:
        pair.deploy(unified=1)

    assert refused.value.code == "name_taken"


def test_a_name_is_free_again_only_when_its_deployment_is_gone(pair: World) -> None:
    pair.delete()
    with pytest.raises(Conflict, match="'m' is still being deleted"):
        pair.deploy(unified=1)
    pair.finish_drains()

    pair.deploy(unified=1)


def test_a_deployment_of_unified_workers_has_one_pool(world: World) -> None:
    world.node("a")
    operation = world.deploy(unified=2, local_prefill_tokens=0)
    world.come_up()

    assert [(pool.role, pool.replicas) for pool in Pool.objects.all()] == [("unified", 2)]
    assert world.deployment().local_prefill_tokens == 0
    assert world.operation(operation).state == OperationState.SUCCEEDED


def test_an_operation_says_who_wanted_what(pair: World) -> None:
    operation = pair.resize("decode", 3).operation

    assert operation is not None
    assert operation.kind == OperationKind.RESIZE
    assert operation.title == "Resize decode of m from 1 to 3"
    assert (operation.targets.get().name, operation.requested_by) == ("m/decode", OPERATOR)
    assert (operation.before, operation.after) == ("1 worker", "3 workers")


def test_a_resize_raises_the_generation(pair: World) -> None:
    assert pair.resize("decode", 2).pool.generation == 2
    assert pair.pool("prefill").generation == 1


def test_a_resize_from_an_old_view_is_refused_with_what_is_there_now(pair: World) -> None:
    """F25: two operators open the page; the second to save is told."""
    pair.resize("decode", 3, generation=1)
    with pytest.raises(StaleGeneration) as refused:
        pair.resize("decode", 2, generation=1)

    assert refused.value.current == {"generation": 2, "replicas": 3}
    assert refused.value.field == "generation"
    assert pair.pool("decode").replicas == 3


def test_the_same_resize_again_is_answered_alike(pair: World) -> None:
    """F25: a double click names the generation of before the first click."""
    first = pair.resize("decode", 2, generation=1)
    again = pair.resize("decode", 2, generation=1)

    assert again.operation == first.operation
    assert again.pool.generation == 2
    assert Operation.objects.filter(kind=OperationKind.RESIZE).count() == 1


def test_a_resize_to_the_present_size_is_no_operation(pair: World) -> None:
    assert pair.resize("decode", 1).operation is None
    assert pair.pool("decode").generation == 1


@pytest.mark.parametrize(("replicas", "says"), [(-1, "0 to 64"), (65, "0 to 64"), (5, "the fleet has 4")])
def test_a_size_out_of_bounds_is_refused_with_the_numbers(pair: World, replicas: int, says: str) -> None:
    with pytest.raises(Invalid, match=says) as refused:
        pair.resize("decode", replicas)

    assert refused.value.field == "replicas"
    assert pair.pool("decode").replicas == 1


def test_a_pool_larger_than_a_fleet_that_shrank_can_be_lowered(pair: World) -> None:
    pair.resize("decode", 3)
    pair.agents["a"].slots = 1
    pair.report()

    assert pair.resize("decode", 2).pool.replicas == 2


def test_a_pool_may_be_resized_to_nothing_and_back(pair: World) -> None:
    down = pair.resize("decode", 0).operation
    pair.report()
    pair.finish_drains()
    assert down is not None
    assert pair.operation(down).state == OperationState.SUCCEEDED
    up = pair.resize("decode", 1).operation
    pair.come_up()

    assert up is not None
    assert pair.operation(up).state == OperationState.SUCCEEDED


def test_a_newer_resize_supersedes_the_one_under_way(pair: World) -> None:
    first = pair.resize("decode", 2).operation
    pair.resize("decode", 3)

    assert first is not None
    assert pair.operation(first).state == OperationState.SUPERSEDED


def test_a_deployment_being_deleted_cannot_be_resized(pair: World) -> None:
    pair.delete()
    with pytest.raises(Conflict, match="being deleted"):
        pair.resize("decode", 2)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: services.pool_resize(pool_id=uuid4(), generation=1, replicas=1, requested_by=OPERATOR),
        lambda: services.deployment_delete(name="nothing", requested_by=OPERATOR),
        lambda: services.worker_restart(worker_id=uuid4(), requested_by=OPERATOR),
    ],
)
def test_what_is_not_there_is_not_found(world: World, ask) -> None:
    with pytest.raises(NotFound):
        ask()


def test_a_refused_request_sends_nothing(pair: World) -> None:
    with pytest.raises(ControlError):
        pair.resize("decode", 99)

    assert [task for task, *_ in pair.outbox.tasks if task == names.TASK_RECONCILE_POOL] == []


def test_the_network_between_the_nodes_of_a_new_deployment_is_measured_and_counts_for_later_plans(world: World) -> None:
    for name in "ab":
        world.node(name, slots=1)
    world.deploy(prefill=1, decode=1)
    for _ in range(6):
        world.report()
        world.sweep()

    assert Link.objects.filter(bytes_per_s=1e9).count() == 2
    assert snapshot(world.deployment()).links == {("a", "b"): 1e9, ("b", "a"): 1e9}


def test_within_one_node_nothing_is_measured(pair: World) -> None:
    assert not LinkMeasurement.objects.exists()


def test_with_a_deploy_that_was_taken_back_ends_what_else_went_on_there(world: World) -> None:
    world.node("a", slots=4)
    deploy = world.deploy(prefill=1, decode=1)
    resize = world.resize("decode", 2).operation
    assert resize is not None
    world.cancel(deploy)
    for _ in range(3):
        world.come_up()
        world.finish_drains()
        world.sweep()

    assert not Deployment.objects.exists()
    assert world.outcome(resize) == (OperationState.FAILED, "m was taken away.")
