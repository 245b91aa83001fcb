"""Claims about sending a node what it shall run, and sending it again (F12)."""

from __future__ import annotations

import pytest
import redis

from controlplane.fleet.models import Node
from controlplane.pools.node_spec import node_specs_resend
from inference.contracts import codec, names
from inference.contracts.specs import NodeSpec
from tests.control.pools.world import World


@pytest.fixture
def untold(world: World, live_redis: redis.Redis) -> World:
    """A node whose spec of generation 1 was lost on the way."""
    world.node("a")
    world.unreachable["a"] = []
    world.deploy(prefill=1, decode=1)
    world.unreachable["a"].clear()
    world.specs.clear()
    return world


def queue(world: World) -> str:
    return names.node_queue(world.agents["a"].node_id)


def resend(world: World) -> list[NodeSpec]:
    with world.committing():
        node_specs_resend()
    sent = [(task, arguments, where) for task, arguments, where in world.outbox.tasks]
    world.outbox.tasks.clear()
    assert {(task, where) for task, _, where in sent} <= {(names.TASK_APPLY_NODE_SPEC, queue(world))}
    return [codec.decode(str(arguments[0]), NodeSpec) for _, arguments, _ in sent]


def test_a_spec_that_was_lost_is_sent_again_whole(untold: World) -> None:
    (spec,) = resend(untold)

    assert spec.generation == 1
    assert len(spec.workers) == 2


def test_nothing_is_sent_again_once_it_was_applied(untold: World) -> None:
    untold.agents["a"].take(resend(untold)[0])
    untold.report()

    assert resend(untold) == []


def test_nothing_is_added_to_a_queue_that_nobody_empties(untold: World, live_redis: redis.Redis) -> None:
    live_redis.lpush(queue(untold), "a spec that waits")

    assert resend(untold) == []


def test_a_silent_node_is_sent_nothing_until_it_is_heard(untold: World) -> None:
    Node.objects.update(phase="lost")

    assert resend(untold) == []


def test_the_sweep_makes_a_forgetful_node_run_what_is_wanted(untold: World) -> None:
    untold.unreachable.clear()
    untold.sweep()
    untold.come_up()

    assert untold.phases() == {"decode-1": "ready", "prefill-1": "ready"}


def test_without_redis_nothing_is_sent_and_nothing_breaks(world: World) -> None:
    world.node("a")
    Node.objects.update(generation=5)
    node_specs_resend()

    assert world.outbox.tasks == []
