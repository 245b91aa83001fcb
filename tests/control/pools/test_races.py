"""Claims about things that happen at the same moment, each over its own database connection."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from threading import Event
from uuid import UUID

import pytest
from django.db import transaction

from controlplane.catalog import services as catalog
from controlplane.catalog.models import Model
from controlplane.core.errors import Conflict, Invalid, StaleGeneration
from controlplane.fleet import workflows as fleet_workflows
from controlplane.fleet.services import Received
from controlplane.operations.models import Operation
from controlplane.operations.services import operation_report
from controlplane.pools import reconcile, services, tasks
from controlplane.pools.apply import PlanOutdated, apply
from controlplane.pools.models import Allocation, Deployment, Pool, Revision, Worker
from controlplane.pools.planning.changes import Move, Plan
from controlplane.pools.reconcile import deployment_reconcile
from controlplane.pools.reports import reports_record
from controlplane.pools.services import Resized, Shape
from controlplane.pools.workflows import deploy
from controlplane.pools.workflows.node_drain import node_drain
from inference.contracts import codec
from inference.contracts.states import OperationKind, OperationState, Role, WorkerPhase
from tests.control.conftest import OPERATOR
from tests.control.pools.world import World
from tests.control.races import Meeting, at_once

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def test_of_two_resizes_that_saw_the_same_generation_exactly_one_wins(committed_world: World) -> None:
    world = committed_world
    world.node("a", slots=8)
    world.deploy(prefill=1, decode=1)
    pool = world.pool("decode")

    def resize(replicas: int) -> Resized:
        return services.pool_resize(
            pool_id=pool.pk, generation=pool.generation, replicas=replicas, requested_by=OPERATOR
        )

    answers = at_once(partial(resize, 2), partial(resize, 3))

    won = [answer for answer in answers if isinstance(answer, Resized)]
    lost = [answer for answer in answers if isinstance(answer, StaleGeneration)]
    assert (len(won), len(lost)) == (1, 1), answers
    pool = world.pool("decode")
    assert (pool.generation, pool.replicas) == (2, won[0].pool.replicas)
    assert lost[0].current == {"generation": 2, "replicas": pool.replicas}
    running = Operation.objects.filter(kind=OperationKind.RESIZE, state=OperationState.RUNNING)
    assert [operation.after for operation in running] == [f"{pool.replicas} workers"]


def test_reconciles_of_one_deployment_at_once_start_each_worker_once(committed_world: World) -> None:
    world = committed_world
    world.node("a", slots=8)
    deployment = _deployment_without_workers(world, "m", decode=3)

    made = at_once(*[partial(deployment_reconcile, deployment.pk)] * 3)

    assert sorted(len(plan.start) for plan in made if isinstance(plan, Plan)) == [0, 0, 4], made
    assert Worker.objects.count() == Allocation.objects.count() == 4
    assert sorted(Worker.objects.values_list("name", flat=True)) == ["decode-1", "decode-2", "decode-3", "prefill-1"]


def test_reconciles_of_two_deployments_at_once_never_give_a_device_twice(committed_world: World) -> None:
    world = committed_world
    world.node("a", slots=3)
    world.node("b", slots=2)
    deployments = [_deployment_without_workers(world, name, decode=3) for name in ("m", "n")]

    made = at_once(*[partial(deployment_reconcile, deployment.pk) for deployment in deployments for _ in range(2)])

    assert all(isinstance(plan, Plan) for plan in made), made
    holders = Counter(Allocation.objects.values_list("device_id", flat=True))
    assert len(holders) == 5
    assert set(holders.values()) == {1}
    assert Worker.objects.count() == 5
    short = {pool.deployment_id for pool in Pool.objects.exclude(refusals="")}
    assert short, "somebody was told that the fleet is full"


def test_reports_and_reconciles_at_once_end_in_what_both_say(committed_world: World) -> None:
    world = committed_world
    agent = world.node("a", slots=8)
    world.deploy(prefill=1, decode=1)
    agent.come_up()
    messages = [codec.encode_text(agent.message()) for _ in range(4)]
    deployment = world.deployment()

    answers = at_once(
        *[partial(tasks.record_node_report, message) for message in messages],
        *[partial(deployment_reconcile, deployment.pk)] * 2,
    )

    assert not [answer for answer in answers if isinstance(answer, Exception)], answers
    assert world.phases() == {"prefill-1": "ready", "decode-1": "ready"}


def test_restarts_and_reports_at_once_never_wait_for_each_other(committed_world: World) -> None:
    """In opposite orders of locking the database would end one of them."""
    world = committed_world
    agent = world.node("a", slots=8)
    world.deploy(prefill=1, decode=1)
    worker = world.worker("decode-1")
    for _ in range(8):
        world.process("decode-1").phase = WorkerPhase.FAILED
        world.report()
        world.process("prefill-1").attempts += 1
        message = codec.encode_text(agent.message())

        answers = at_once(
            partial(services.worker_restart, worker_id=worker.pk, requested_by=OPERATOR),
            partial(tasks.record_node_report, message),
        )

        assert not [answer for answer in answers if isinstance(answer, Exception)], answers
        world.settle()


def test_a_plan_made_from_an_older_state_writes_nothing(committed_world: World) -> None:
    world = committed_world
    world.node("a", slots=8)
    world.deploy(prefill=1, decode=2)
    world.come_up()
    first, second = world.worker("decode-1"), world.worker("decode-2")
    Worker.objects.filter(pk=second.pk).update(desired="stop")
    outdated = Plan(drain=(Move(str(first.pk), "test"), Move(str(second.pk), "test")))

    with pytest.raises(PlanOutdated, match="decode-2"):
        apply(world.deployment(), outdated)

    assert world.worker("decode-1").desired == "run"
    assert world.outbox.tasks == []


def test_a_deployment_and_the_end_of_its_model_at_once_is_refused_in_words(
    committed_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed_world.node("a", slots=2)
    meet, saved, unused = Meeting(), deploy._save, catalog._require_unused
    monkeypatch.setattr(deploy, "_save", lambda *args: (saved(*args), meet()))
    monkeypatch.setattr(catalog, "_require_unused", lambda *args: (unused(*args), meet()))

    made, deleted = at_once(
        lambda: services.deployment_create(
            name="m", model="tiny", shape=Shape(counts={Role.PREFILL: 1, Role.DECODE: 1}), requested_by=OPERATOR
        ),
        lambda: catalog.model_delete("tiny"),
    )

    if isinstance(made, Exception):
        assert isinstance(made, Invalid), made
        assert deleted is None
    else:
        assert isinstance(deleted, Conflict), deleted


def test_what_ends_a_drain_and_the_sweep_that_looks_at_it_never_wait_for_each_other(
    committed_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = committed_world
    agent = world.node("a", slots=2)
    world.deploy(prefill=1, decode=1)
    drain = node_drain(UUID(agent.node_id), requested_by=OPERATOR)
    meet, desire = Meeting(), fleet_workflows.node_desire
    monkeypatch.setattr(fleet_workflows, "node_desire", lambda *args, **named: (meet(), desire(*args, **named))[1])

    def look() -> None:
        with transaction.atomic():
            fleet_workflows.node_lock(drain)
            meet()
            operation_report(drain, (), 0.5)

    answers = at_once(lambda: fleet_workflows.node_cordon(UUID(agent.node_id), by=OPERATOR), look)

    assert not [answer for answer in answers if isinstance(answer, Exception)], answers
    assert Operation.objects.get(pk=drain.pk).state == OperationState.SUPERSEDED


def test_a_look_at_workers_of_one_node_that_starts_others_elsewhere_and_reports_of_both_never_wait_for_each_other(
    committed_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports lock node a, then b. The look starts a worker on b anew, and another one on a."""
    world = committed_world
    second = world.node("b", slots=2)
    world.deploy(prefill=1, decode=1)
    world.come_up()
    first = world.node("a", slots=2)
    Worker.objects.filter(name="decode-1").update(renewing=True, desired="drain", phase=WorkerPhase.STOPPED)
    Pool.objects.filter(role=Role.DECODE).update(replicas=2)
    turn, taken = reconcile._take_turn, Event()

    def take_turn() -> None:
        turn()
        taken.set()
        time.sleep(0.5)

    monkeypatch.setattr(reconcile, "_take_turn", take_turn)

    def report() -> None:
        taken.wait(10)
        reports_record([Received(agent.message(), world.now()) for agent in (first, second)])

    answers = at_once(partial(deployment_reconcile, world.deployment().pk), report)

    assert not [answer for answer in answers if isinstance(answer, Exception)], answers
    assert Worker.objects.filter(node__name="a").count() == 1


def _deployment_without_workers(world: World, name: str, *, decode: int) -> Deployment:
    """As it is between the operator's request and the first reconcile. Its capacity is not checked."""
    deployment = Deployment.objects.create(name=name, created_at=world.now())
    Revision.objects.create(deployment=deployment, number=1, model=Model.objects.get(), created_at=world.now())
    Pool.objects.create(deployment=deployment, role=Role.PREFILL, replicas=1)
    Pool.objects.create(deployment=deployment, role=Role.DECODE, replicas=decode)
    return deployment
