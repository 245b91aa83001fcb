"""Whatever happens: the snapshot a console had, plus the events sent since, is a fresh snapshot.

The idea of testing it so is Zulip's (its events system).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from msgspec import structs
from pytest_django import DjangoAssertNumQueries

from controlplane.catalog.services import model_create, model_ensure
from controlplane.console import snapshot
from controlplane.fleet.models import Node
from controlplane.fleet.services import node_record_report, nodes_mark_lost
from controlplane.pools.services import worker_restart
from inference.contracts.console import (
    ConsoleEvent,
    DeploymentChanged,
    DeploymentRemoved,
    ModelChanged,
    NodeChanged,
    OperationChanged,
    Snapshot,
)
from inference.contracts.states import NodePhase, WorkerPhase
from tests.control.conftest import OPERATOR, Clock, Outbox
from tests.control.pools.conftest import world  # noqa: F401  (a fixture)
from tests.control.pools.world import World

pytestmark = pytest.mark.postgres

KEPT = 50


def applied(shown: Snapshot, event: ConsoleEvent) -> Snapshot:
    """What a console does with an event (frontend/src/live/state.ts)."""
    match event:
        case DeploymentChanged(deployment=new):
            others = (one for one in shown.deployments if one.name != new.name)
            return structs.replace(shown, deployments=tuple(sorted((*others, new), key=lambda one: one.name)))
        case DeploymentRemoved(name=name):
            return structs.replace(shown, deployments=tuple(one for one in shown.deployments if one.name != name))
        case NodeChanged(node=new):
            others = (one for one in shown.nodes if one.id != new.id)
            return structs.replace(shown, nodes=tuple(sorted((*others, new), key=lambda one: one.name)))
        case ModelChanged(model=new):
            others = (one for one in shown.models if one.name != new.name)
            return structs.replace(shown, models=tuple(sorted((*others, new), key=lambda one: one.name)))
        case OperationChanged(operation=new):
            others = (one for one in shown.operations if one.id != new.id)
            newest = sorted((*others, new), key=lambda one: one.started_at, reverse=True)
            return structs.replace(shown, operations=tuple(newest[:KEPT]))
        case _:
            return shown


class Console:
    """One that looks on while things happen."""

    def __init__(self, outbox: Outbox) -> None:
        self._events = outbox.events
        self._seen = len(self._events)
        self.shown = snapshot.read("0-0", ())

    def check(self) -> None:
        for event in self._events[self._seen :]:
            self.shown = applied(self.shown, event)
        self._seen = len(self._events)
        assert unhurried(self.shown) == unhurried(snapshot.read("0-0", ()))


def unhurried(shown: Snapshot) -> Snapshot:
    """Without what consoles are told only now and then, since it changes with every report."""
    nodes = (structs.replace(node, last_report_at=None, clock_offset_s=None) for node in shown.nodes)
    return structs.replace(shown, nodes=tuple(nodes))


@pytest.fixture
def console(world: World, outbox: Outbox) -> Console:  # noqa: F811
    return Console(outbox)


def test_a_snapshot_costs_the_same_however_much_there_is(
    world: World,  # noqa: F811
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    world.node("a", slots=8)
    world.deploy(prefill=1, decode=1)
    with CaptureQueriesContext(connection) as small:
        snapshot.read("0-0", ())

    world.node("b", slots=8)
    world.deploy(name="n", prefill=2, decode=3)
    world.resize("decode", 4)
    world.come_up()

    with django_assert_num_queries(len(small)):
        snapshot.read("0-0", ())


def test_through_the_life_of_a_deployment(world: World, console: Console) -> None:  # noqa: F811
    def fail() -> None:
        process = world.process("decode-2")
        process.phase, process.reason = WorkerPhase.FAILED, "the path is no model"
        world.report()

    def restart() -> None:
        with world.committing():
            worker_restart(worker_id=world.worker("decode-2").pk, requested_by=OPERATOR)
        world.settle()

    def lose(name: str) -> None:
        world.unreachable[name] = []
        for _ in range(30):
            world.now.advance(2)
            world.report(*(world.agents.keys() - world.unreachable.keys()))
            world.sweep()
        assert Node.objects.get(name=name).phase == NodePhase.LOST

    steps: list[Callable[[], object]] = [
        lambda: world.node("a", slots=3),
        lambda: world.node("b", slots=2),
        lambda: world.deploy(prefill=1, decode=2),
        world.report,
        world.come_up,
        lambda: world.resize("decode", 4),
        world.come_up,
        lambda: world.resize("decode", 1),
        world.report,
        world.finish_drains,
        world.report,
        fail,
        restart,
        world.come_up,
        lambda: lose("b"),
        lambda: world.find("b"),
        world.sweep,
        lambda: world.delete(),
        world.report,
        world.finish_drains,
        world.report,
        world.sweep,
    ]
    for step in steps:
        step()
        console.check()
    assert console.shown.deployments == ()


def test_through_changes_of_the_catalogue_and_the_fleet(
    world: World,  # noqa: F811
    console: Console,
    now: Clock,
) -> None:
    with world.committing():
        model_create(name="second", path="/models/second")
    console.check()
    with world.committing():
        model_ensure(name="second", path="/models/elsewhere", description="moved")
    console.check()
    agent = world.node("a", slots=2)
    console.check()
    agent.slots = 1  # a device is gone
    world.report("a")
    console.check()
    for _ in range(10):
        now.advance(30)
        with world.committing():
            nodes_mark_lost()
        console.check()
    with world.committing():
        node_record_report(agent.message(), received_at=now())
    console.check()
