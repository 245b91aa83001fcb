"""Claims about cost: what is asked of the database does not grow with pools, fleets or lists."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from controlplane.fleet.models import LinkMeasurement
from controlplane.fleet.services import Received
from controlplane.pools import services
from controlplane.pools.reconcile import deployment_reconcile
from controlplane.pools.reports import reports_record
from inference.contracts import names
from inference.contracts.reports import WorkerLoad
from tests.control.conftest import OPERATOR
from tests.control.pools.world import World

pytestmark = pytest.mark.postgres


def queries(world: World, replicas: int) -> tuple[int, int]:
    """Of asking for that size, and of the reconcile that starts the workers."""
    pool = world.pool("decode")
    with world.committing():
        with CaptureQueriesContext(connection) as asking:
            services.pool_resize(pool_id=pool.pk, generation=pool.generation, replicas=replicas, requested_by=OPERATOR)
        with CaptureQueriesContext(connection) as reconciling:
            made = deployment_reconcile(pool.deployment_id)
    world.settle()
    assert made is not None
    assert len(made.start) == replicas - pool.replicas
    return len(asking), len(reconciling)


def test_a_large_change_costs_as_many_queries_as_a_small_one(world: World) -> None:
    for name in "abc":
        world.node(name, slots=16)
    world.deploy(prefill=1, decode=1)
    world.come_up()
    few = queries(world, 3)
    world.come_up()
    many = queries(world, 19)

    assert many[0] <= few[0]
    assert many[1] <= few[1] + 4, "steps of an operation are told in numbers when they are many"


def test_many_reports_cost_as_many_queries_as_one(world: World) -> None:
    for name in "abcdef":
        world.node(name, slots=2)
    world.deploy(prefill=2, decode=10)
    world.come_up()
    LinkMeasurement.objects.all().delete()
    for agent in world.agents.values():
        agent.links = ()
    world.report()

    def cost(*nodes: str) -> int:
        world.now.advance(1)
        for process in (each for name in nodes for each in world.agents[name].processes.values()):
            running = int(world.now().timestamp()) % 7 + 1
            process.load = WorkerLoad(
                running=running, waiting=0, waiting_tokens=0, kv_blocks_used=running, kv_blocks_total=100
            )
        received = [Received(world.agents[name].message(), world.now()) for name in nodes]
        with CaptureQueriesContext(connection) as counted:
            reports_record(received)
        return len(counted)

    cost("a")
    assert cost("a", "b", "c", "d", "e") <= cost("f") + 1


def test_listing_costs_the_same_however_many_deployments_and_workers(world: World, api: APIClient) -> None:
    world.node("a", slots=16)
    world.deploy(prefill=1, decode=1)
    with CaptureQueriesContext(connection) as one:
        api.get("/api/v1/deployments")
    for name in ("x", "y"):
        world.deploy(name=name, prefill=2, decode=3)
    with CaptureQueriesContext(connection) as three:
        assert len(api.get("/api/v1/deployments").json()["items"]) == 3

    assert len(three) == len(one)


def test_a_change_is_sent_to_each_node_once(world: World) -> None:
    for name in "ab":
        world.node(name, slots=8)
    world.deploy(prefill=4, decode=4)
    world.come_up()
    world.outbox.tasks.clear()
    pool = world.pool("decode")
    with world.committing():
        services.pool_resize(pool_id=pool.pk, generation=pool.generation, replicas=8, requested_by=OPERATOR)
    world.outbox.tasks.clear()
    with world.committing():
        deployment_reconcile(pool.deployment_id)

    sent = [queue for task, _, queue in world.outbox.tasks if task == names.TASK_APPLY_NODE_SPEC]
    assert len(sent) == len(set(sent)) == 2
