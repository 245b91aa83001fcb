"""A control plane that was paused, or a Redis that was away, is never a mass eviction (F12, F14): the whole path, from
reports over the sweep to workers and routes."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from controlplane.fleet.models import Node
from controlplane.pools.models import Worker
from controlplane.pools.routing import deployment_routes
from inference.contracts.states import NodePhase, WorkerDesired, WorkerPhase
from tests.control.pools.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def serving(world: World, settings: Settings) -> World:
    """Four workers on two nodes, swept and heard every five seconds for a while."""
    settings.NODE_LOST_AFTER_S, settings.SWEEP_INTERVAL_S = 20.0, 5.0
    for name in ("a", "b"):
        world.node(name, slots=4)
    world.deploy(prefill=2, decode=2)
    world.come_up()
    for _ in range(8):
        heard_and_swept(world)
    assert untouched(world)
    return world


def heard_and_swept(world: World) -> None:
    world.now.advance(3)
    world.report()
    world.sweep()


def untouched(world: World) -> bool:
    """Everything runs where it ran, and requests are sent there."""
    workers = Worker.objects.all()
    return (
        set(Node.objects.values_list("phase", flat=True)) == {NodePhase.READY}
        and workers.count() == 4
        and all((each.phase, each.desired) == (WorkerPhase.READY, WorkerDesired.RUN) for each in workers)
        and sum(len(route.workers) for route in deployment_routes()) == 4
    )


@pytest.mark.parametrize("away_s", [12.0, 60.0, 3600.0])
def test_after_a_pause_the_first_sweeps_evict_nobody(serving: World, away_s: float) -> None:
    generations = list(Node.objects.values_list("generation", flat=True))
    serving.now.advance(away_s)
    for _ in range(3):
        serving.now.advance(5)
        serving.sweep()
        assert untouched(serving), "nodes have not been heard since, and may need a moment to reconnect"
    heard_and_swept(serving)
    assert untouched(serving)
    assert list(Node.objects.values_list("generation", flat=True)) == generations, "nothing was even sent"


def test_a_pile_of_old_reports_after_a_pause_evicts_nobody(serving: World) -> None:
    """They waited in Redis, and come all at once between two sweeps, the newest first."""
    messages = [agent.message() for agent in serving.agents.values() for _ in range(5)]
    serving.now.advance(600)
    serving.sweep()
    for message in reversed(messages):
        serving.deliver(message)
    serving.sweep()
    assert untouched(serving)


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_jump_of_our_own_clock_evicts_nobody(serving: World, jump_s: float) -> None:
    serving.now.advance(jump_s)
    for _ in range(4):
        heard_and_swept(serving)
        assert untouched(serving)


def test_a_node_that_stays_silent_after_a_pause_is_lost_one_limit_later_and_the_others_stay(serving: World) -> None:
    serving.now.advance(600)
    for _ in range(8):
        serving.now.advance(3)
        serving.report("a")
        serving.sweep()
    phases = dict(Node.objects.values_list("name", "phase"))
    assert phases == {"a": NodePhase.READY, "b": NodePhase.LOST}
