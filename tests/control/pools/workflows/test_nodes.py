"""Draining and retiring nodes with what runs there."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.fleet.models import Link, Node
from controlplane.fleet.workflows import node_cordon, node_uncordon
from controlplane.operations.models import Operation
from controlplane.pools.models import Allocation, Pool, Worker
from controlplane.pools.workflows.node_drain import node_drain
from controlplane.pools.workflows.node_retire import node_retire_start
from inference.contracts.states import NodeDesired, OperationState, WorkerPhase
from tests.control.conftest import OPERATOR
from tests.control.pools.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def two_nodes(world: World) -> World:
    """A prefill and a decode worker on node a, which is full; node b has room for both."""
    world.node("a", slots=2)
    world.deploy(prefill=1, decode=1)
    world.come_up()
    world.node("b", slots=2)
    assert on(world, "a") == 2
    return world


def on(world: World, name: str) -> int:
    return Worker.objects.filter(node__name=name).count()


def node(name: str) -> Node:
    return Node.objects.get(name=name)


def drain(world: World, name: str = "a", **more: Any) -> Operation:
    return world.ask(node_drain, node_id=node(name).pk, **more)


def retire(world: World, name: str = "a") -> Operation:
    return world.ask(node_retire_start, node_id=node(name).pk)


def go_on(world: World, rounds: int = 8) -> None:
    """Everything that follows by itself: starts come up, drains finish."""
    for _ in range(rounds):
        world.come_up()
        world.finish_drains()
        world.now.advance(10)
        world.sweep()


def seen(operation: Operation) -> Operation:
    return Operation.objects.get(pk=operation.pk)


def test_what_runs_on_a_drained_node_moves_elsewhere_and_the_operation_ends_when_it_is_empty(two_nodes: World) -> None:
    operation = drain(two_nodes, reason="new fan")
    assert (operation.state, node("a").desired, node("a").cordon_reason) == (
        OperationState.RUNNING,
        NodeDesired.DRAINING,
        "new fan",
    )
    go_on(two_nodes)

    assert (on(two_nodes, "a"), on(two_nodes, "b")) == (0, 2)
    ended = seen(operation)
    assert (ended.state, ended.progress) == (OperationState.SUCCEEDED, 1.0), ended.outcome
    assert node("a").desired == NodeDesired.DRAINING, "it is given nothing until it is uncordoned"


def test_its_steps_tell_of_each_worker(two_nodes: World) -> None:
    operation = drain(two_nodes)
    two_nodes.come_up()
    texts = " ".join(step.text for step in seen(operation).steps.all())
    assert "m: prefill-1" in texts
    assert "m: decode-1" in texts


def test_the_preview_says_what_moves_where(two_nodes: World, api: APIClient) -> None:
    answer = api.post(f"/api/v1/nodes/{node('a').pk}/drain?dry_run=true", {}, format="json")
    assert answer.status_code == 202, answer.content
    preview = answer.json()["operation"]["preview"]
    assert len(preview["start"]) == 2
    assert all(" on b " in text for text in preview["start"])
    assert {text.partition(" on ")[2] for text in preview["stop"]} == {"a cpu-0", "a cpu-1"}
    assert node("a").desired == NodeDesired.ACTIVE
    assert not Operation.objects.filter(kind="drain_node").exists()


def test_an_empty_node_is_drained_at_once(two_nodes: World) -> None:
    assert drain(two_nodes, "b").state == OperationState.SUCCEEDED


@pytest.fixture
def full(world: World) -> World:
    """One node, whose workers have nowhere else to go."""
    world.node("a", slots=2)
    world.deploy(prefill=1, decode=1)
    world.come_up()
    return world


def test_with_no_room_elsewhere_the_workers_that_a_pool_must_have_stay_and_it_says_why(full: World) -> None:
    Pool.objects.update(min_replicas=1)
    operation = drain(full)
    go_on(full, rounds=2)
    assert on(full, "a") == 2
    assert seen(operation).state == OperationState.RUNNING
    assert any("may not have fewer than 1 ready worker" in step.cause for step in seen(operation).steps.all())


def test_the_preview_warns_when_nothing_will_serve(full: World, api: APIClient) -> None:
    answer = api.post(f"/api/v1/nodes/{node('a').pk}/drain?dry_run=true", {}, format="json").json()
    assert any("Nothing serves" in warning for warning in answer["operation"]["preview"]["warnings"])


@pytest.mark.parametrize("before", [NodeDesired.ACTIVE, NodeDesired.CORDONED])
def test_a_drain_that_is_taken_back_leaves_the_node_as_it_was(two_nodes: World, before: NodeDesired) -> None:
    why = "a new driver" if before == NodeDesired.CORDONED else ""
    if before == NodeDesired.CORDONED:
        two_nodes.ask(_cordoned, node_id=node("a").pk, reason=why)
    operation = drain(two_nodes)
    two_nodes.cancel(operation)
    go_on(two_nodes)
    assert (seen(operation).state, node("a").desired) == (OperationState.CANCELLED, before)
    assert node("a").cordon_reason == why
    assert Worker.objects.filter(phase=WorkerPhase.READY).count() == 2


def _cordoned(*, node_id: Any, requested_by: str, reason: str = "") -> Operation:
    return node_cordon(node_id, by=requested_by, reason=reason)


def _uncordoned(*, node_id: Any, requested_by: str) -> Operation:
    return node_uncordon(node_id, by=requested_by)


@pytest.mark.parametrize(("step", "after"), [(_cordoned, NodeDesired.CORDONED), (_uncordoned, NodeDesired.ACTIVE)])
def test_a_cordon_or_uncordon_takes_over_from_a_drain(two_nodes: World, step: Any, after: NodeDesired) -> None:
    operation = drain(two_nodes)
    two_nodes.ask(step, node_id=node("a").pk)
    assert (seen(operation).state, node("a").desired) == (OperationState.SUPERSEDED, after)


def test_a_second_drain_of_a_node_is_refused_with_the_first(two_nodes: World, api: APIClient) -> None:
    operation = drain(two_nodes)
    refused = api.post(f"/api/v1/nodes/{node('a').pk}/drain", {}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "operation_conflict")
    assert str(operation.pk) in str(refused.json())


def test_a_retired_node_s_workers_count_as_gone_and_are_replaced_elsewhere(two_nodes: World) -> None:
    operation = retire(two_nodes)
    go_on(two_nodes, rounds=3)
    assert (on(two_nodes, "a"), on(two_nodes, "b")) == (0, 2)
    assert not Allocation.objects.filter(device__node__name="a").exists()
    assert seen(operation).state == OperationState.SUCCEEDED
    assert node("a").retired_at is not None


def test_nothing_that_a_retired_node_says_counts(two_nodes: World) -> None:
    retire(two_nodes)
    go_on(two_nodes, rounds=3)
    last = node("a").last_report_at
    two_nodes.report("a")
    assert node("a").last_report_at == last
    assert on(two_nodes, "a") == 0


def test_a_lost_node_can_be_retired(two_nodes: World) -> None:
    two_nodes.lose("a")
    operation = retire(two_nodes)
    go_on(two_nodes, rounds=3)
    assert seen(operation).state == OperationState.SUCCEEDED
    assert on(two_nodes, "b") == 2


def test_retiring_takes_over_from_a_drain_and_warns_of_what_it_cuts_off(two_nodes: World, api: APIClient) -> None:
    drained = drain(two_nodes)
    tried = api.post(f"/api/v1/nodes/{node('a').pk}/retire?dry_run=true", {}, format="json").json()
    assert "cut off" in tried["operation"]["preview"]["warnings"][0]
    assert node("a").desired == NodeDesired.DRAINING
    retire(two_nodes)
    assert seen(drained).state == OperationState.SUPERSEDED


def test_a_node_is_retired_once(two_nodes: World, api: APIClient) -> None:
    retire(two_nodes, "b")
    for verb in ("retire", "drain"):
        refused = api.post(f"/api/v1/nodes/{node('b').pk}/{verb}", {}, format="json")
        assert (refused.status_code, refused.json()["code"]) == (409, "node_retired")


def test_who_asked_is_on_record(two_nodes: World) -> None:
    assert drain(two_nodes).requested_by == OPERATOR


def test_a_retired_node_is_told_to_run_nothing_once_and_is_sent_no_more(two_nodes: World) -> None:
    two_nodes.lose("a")  # its reports are not heard, so nothing says that it took what it was sent
    sent = len(two_nodes.specs)
    retire(two_nodes)
    told = [spec for spec in two_nodes.specs[sent:] if spec.node_id == str(node("a").pk)]
    assert told
    assert all((spec.workers, spec.weights, spec.links) == ((), (), ()) for spec in told)

    Node.objects.filter(name="a").update(phase="ready", report_interval_s=99.0)
    sent = len(two_nodes.specs)
    go_on(two_nodes, rounds=2)
    assert not [spec for spec in two_nodes.specs[sent:] if spec.node_id == str(node("a").pk)]


def test_links_of_retired_nodes_are_not_listed(two_nodes: World, api: APIClient) -> None:
    Link.objects.create(source=node("a"), target=node("b"), bytes_per_s=1e9)
    assert len(api.get("/api/v1/links").json()["items"]) == 1
    retire(two_nodes)
    assert api.get("/api/v1/links").json()["items"] == []
