"""Claims about nodes that go silent and come back (F10), and about agents that go down in order."""

from __future__ import annotations

from uuid import uuid4

import pytest

from controlplane.fleet.models import Node
from controlplane.pools.models import Allocation, Deployment, Worker
from controlplane.pools.presenters import deployment_view
from controlplane.pools.routing import deployment_routes
from controlplane.pools.selectors import deployment_list
from controlplane.pools.sweep import workers_lose_sight
from inference.contracts.states import NodeDesired, OperationState, WorkerDesired, WorkerPhase
from tests.control.pools.world import World

pytestmark = pytest.mark.postgres


@pytest.fixture
def pair_on_two_nodes(world: World) -> World:
    """prefill-1 on a, decode-1 on b, one slot free on each."""
    for name in ("a", "b"):
        world.node(name, slots=1)
    world.deploy(prefill=1, decode=1)
    for agent in world.agents.values():
        agent.slots = 2
    world.come_up()
    return world


def node_of(world: World, worker: str) -> str:
    return world.worker(worker).node.name


def routed(world: World, *, in_sight: bool = True) -> set[str]:
    """Those in sight, or those that are the last resort."""
    listed = (each for route in deployment_routes() for each in route.workers)
    ids = {each.worker_id for each in listed if each.in_sight == in_sight}
    return {worker.name for worker in Worker.objects.all() if str(worker.pk) in ids}


def test_workers_of_a_silent_node_are_unknown_a_last_resort_and_replaced_elsewhere(pair_on_two_nodes: World) -> None:
    world = pair_on_two_nodes
    lost = node_of(world, "decode-1")
    world.lose(lost)

    worker = world.worker("decode-1")
    assert (worker.phase, worker.load, worker.reason) == (WorkerPhase.UNKNOWN, None, f"{lost} is silent")
    assert (worker.known_role, worker.http_port) == (None, 9000)
    assert routed(world) == {"prefill-1"}
    assert routed(world, in_sight=False) == {"decode-1"}
    assert world.phases()["decode-2"] == "assigned"
    assert node_of(world, "decode-2") != lost
    assert worker.allocations.count() == 1, "nobody knows what runs on that device"


def test_a_last_resort_stays_one_while_its_replacement_serves(pair_on_two_nodes: World) -> None:
    world = pair_on_two_nodes
    world.lose(node_of(world, "decode-1"))
    for name in world.agents.keys() - world.unreachable.keys():
        world.agents[name].come_up()
        world.report(name)
    world.sweep()

    assert routed(world) == {"prefill-1", "decode-2"}
    assert routed(world, in_sight=False) == {"decode-1"}


def test_a_worker_that_was_not_ready_when_its_node_fell_silent_is_no_last_resort(pair_on_two_nodes: World) -> None:
    world = pair_on_two_nodes
    lost = node_of(world, "decode-1")
    world.process("decode-1").phase = WorkerPhase.LOADING
    world.report(lost)
    world.lose(lost)

    assert world.worker("decode-1").phase == WorkerPhase.UNKNOWN
    assert routed(world, in_sight=False) == set()


def test_the_address_of_a_replaced_incarnation_is_never_listed(pair_on_two_nodes: World) -> None:
    world = pair_on_two_nodes
    world.lose(node_of(world, "decode-1"))
    row = Worker.objects.filter(name="decode-1")

    row.update(incarnation=uuid4(), phase=WorkerPhase.ASSIGNED)
    assert routed(world, in_sight=False) == set()
    workers_lose_sight(now=world.now())
    assert row.get().phase == WorkerPhase.UNKNOWN
    assert routed(world, in_sight=False) == set()


def test_what_is_unwanted_or_on_a_retired_node_is_no_last_resort(pair_on_two_nodes: World) -> None:
    world = pair_on_two_nodes
    lost = node_of(world, "decode-1")
    world.lose(lost)
    assert routed(world, in_sight=False) == {"decode-1"}
    Node.objects.filter(name=lost).update(desired=NodeDesired.RETIRED)
    assert routed(world, in_sight=False) == set()
    Node.objects.filter(name=lost).update(desired=NodeDesired.ACTIVE)
    assert routed(world, in_sight=False)
    Worker.objects.update(desired=WorkerDesired.DRAIN)
    assert routed(world, in_sight=False) == set()


def test_consoles_are_told_that_a_deployment_out_of_sight_may_serve(world: World) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    world.lose("a")

    (shown,) = [deployment_view(each) for each in deployment_list()]
    assert (shown.serving, shown.status) == (
        False,
        "Perhaps serving: 0 of 2 workers ready, and routers still try 2 out of sight.",
    )
    assert {(each.phase, each.observed_role) for pool in shown.pools for each in pool.workers} == {("unknown", None)}


def test_a_returning_worker_is_adopted_and_its_replacement_that_is_not_up_goes(pair_on_two_nodes: World) -> None:
    world = pair_on_two_nodes
    lost = node_of(world, "decode-1")
    incarnation = world.worker("decode-1").incarnation
    world.lose(lost)
    world.find(lost)
    world.report()

    assert world.phases() == {"prefill-1": "ready", "decode-1": "ready"}
    assert world.worker("decode-1").incarnation == incarnation
    assert Allocation.objects.count() == 2
    assert routed(world) == {"prefill-1", "decode-1"}


def test_a_returning_worker_whose_replacement_serves_leaves_one_of_the_two(pair_on_two_nodes: World) -> None:
    world = pair_on_two_nodes
    lost = node_of(world, "decode-1")
    world.lose(lost)
    for name, agent in world.agents.items():
        if name != lost:
            agent.come_up()
            world.report(name)
    assert world.phases()["decode-2"] == "ready"

    world.find(lost)
    assert len(routed(world)) == 2, "one prefill, one decode: the other drains"
    world.finish_drains()

    assert sorted(name.split("-")[0] for name in world.phases()) == ["decode", "prefill"]
    assert Allocation.objects.count() == 2


def test_what_was_deleted_while_its_node_was_away_is_stopped_when_it_returns(pair_on_two_nodes: World) -> None:
    world = pair_on_two_nodes
    lost = node_of(world, "decode-1")
    world.lose(lost)
    operation = world.delete()
    for name in world.agents:
        if name != lost:
            world.agents[name].finish_drains()
            world.report(name)

    assert list(world.phases()) == ["decode-1"], "its row waits for the node to say that it is gone"
    assert world.operation(operation).state == OperationState.RUNNING
    assert f"decode-1 leaves when {lost} is heard again" in world.steps(operation)

    world.find(lost)
    world.finish_drains()

    assert not Deployment.objects.exists()
    assert world.agents[lost].processes == {}
    assert world.operation(operation).state == OperationState.SUCCEEDED


def test_a_node_that_returns_without_its_workers_gives_its_devices_back(pair_on_two_nodes: World) -> None:
    """The machine was set up anew: the agent knows nothing, gets the whole spec and starts what is wanted."""
    world = pair_on_two_nodes
    lost = node_of(world, "decode-1")
    agent = world.agents[lost]
    world.lose(lost)
    agent.processes, agent.generation, agent.boot_id, agent.sequence = {}, 0, "boot-2", 0
    agent.take(next(spec for spec in reversed(world.specs) if spec.node_id == agent.node_id))
    world.find(lost)
    world.come_up()
    world.finish_drains()

    assert sorted(world.phases().values()) == ["ready", "ready"]
    assert Allocation.objects.count() == len(Worker.objects.all()) == 2


def test_an_agent_that_stops_its_workers_in_order_finds_them_wanted_when_it_is_back(world: World) -> None:
    """A second `make up` goes on with the same workers."""
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    before = set(Worker.objects.values_list("pk", "incarnation"))
    agent = world.agents["a"]
    for process in agent.processes.values():
        process.phase = WorkerPhase.STOPPED
    world.report()
    assert routed(world) == set()

    for process in agent.processes.values():
        process.phase = WorkerPhase.STARTING
    agent.boot_id, agent.sequence = "boot-2", 0
    world.report()
    world.come_up()

    assert set(Worker.objects.values_list("pk", "incarnation")) == before
    assert world.phases() == {"decode-1": "ready", "prefill-1": "ready"}
    assert Node.objects.get(name="a").generation == 1
