"""Claims about the routing table: who is in it, and that its version only grows."""

from __future__ import annotations

import pytest
import redis

from controlplane.core import tables
from controlplane.pools.models import RoutingTableVersion, Worker
from controlplane.pools.routing import routing_table_refresh
from inference.contracts import codec, names
from inference.contracts.abilities import Abilities
from inference.contracts.engines import ENGINES, NATIVE, Capabilities
from inference.contracts.reports import WorkerLoad
from inference.contracts.routing import DeploymentRoute, RoutingTable
from inference.contracts.states import Role, WorkerPhase
from tests.control.pools.world import World


def published() -> RoutingTable:
    table = tables.read(names.ROUTING_TABLE_KEY, RoutingTable)
    assert table is not None
    return table


def workers(table: RoutingTable) -> set[str]:
    by_id = {str(worker.pk): worker.name for worker in Worker.objects.all()}
    return {by_id[each.worker_id] for route in table.deployments for each in route.workers}


def test_a_deployment_is_listed_before_it_can_serve_with_no_workers(world: World, live_redis: redis.Redis) -> None:
    """F31: known but not servable is another answer than unknown."""
    world.node("a")
    world.deploy(prefill=1, decode=1)

    assert published().deployments == (
        DeploymentRoute(
            name="m",
            model_name="m",
            created=int(world.deployment().created_at.timestamp()),
            context_length=None,
            local_prefill_tokens=64,
            default_max_tokens=512,
            workers=(),
        ),
    )


def test_a_deployment_whose_engine_makes_embeddings_says_so(
    world: World, live_redis: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENGINES, NATIVE, Capabilities(embeddings=True))
    world.node("a")
    world.deploy(prefill=1, decode=1)
    assert published().deployments[0].embeddings


def test_ready_workers_are_listed_with_all_that_a_router_needs(world: World, live_redis: redis.Redis) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()

    (route,) = published().deployments
    decode = next(each for each in route.workers if each.role == Role.DECODE)
    row = world.worker("decode-1")
    assert len(route.workers) == 2
    assert route.context_length == 2048
    assert (decode.worker_id, decode.incarnation) == (str(row.pk), str(row.incarnation))
    assert (decode.http.host, decode.http.port) == ("10.0.0.1", 9000)
    assert decode.transfer is not None
    assert decode.fingerprint == "fingerprint-of-all"
    assert decode.kv_blocks_total == 100


def test_only_what_may_take_requests_is_listed(world: World, live_redis: redis.Redis) -> None:
    world.node("a", slots=6)
    world.deploy(prefill=1, decode=4)
    world.come_up()
    for name, phase in (("decode-2", WorkerPhase.LOADING), ("decode-3", WorkerPhase.BACKOFF)):
        world.process(name).phase = phase
    world.report()
    assert workers(published()) == {"prefill-1", "decode-1", "decode-4"}

    world.resize("decode", 0)
    assert workers(published()) == {"prefill-1"}


def test_a_drained_worker_leaves_the_table_before_its_node_is_told(
    world: World, live_redis: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    order: list[str] = []
    monkeypatch.setattr(world.agents["a"], "take", lambda spec: order.append(f"{len(workers(published()))} routed"))
    world.resize("decode", 0)

    assert order == ["1 routed"]


def test_the_smallest_context_of_the_workers_counts(world: World, live_redis: redis.Redis) -> None:
    """F30: a request may meet any pair."""
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    Worker.objects.filter(name="decode-1").update(context_length=1024)
    world.sweep()

    assert published().deployments[0].context_length == 1024


def test_what_each_worker_can_do_counts_and_one_of_an_earlier_release_says_nothing(
    world: World, live_redis: redis.Redis
) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=2)
    world.process("decode-1").abilities = Abilities(vocab_size=90, max_answers=8)
    world.process("decode-2").abilities = None
    world.come_up()

    assert published().deployments[0].abilities == Abilities(vocab_size=90, max_answers=8, chat=True)
    world.process("decode-1").abilities = Abilities(vocab_size=95)
    world.report()
    assert published().deployments[0].abilities == Abilities(vocab_size=95, chat=True)


def test_workers_of_unlike_fingerprints_are_both_listed(world: World, live_redis: redis.Redis) -> None:
    """F06: routers pair equal ones only; during a rolling change both kinds serve."""
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.process("decode-1").fingerprint = "another"
    world.come_up()

    assert workers(published()) == {"prefill-1", "decode-1"}


def test_the_version_grows_only_with_changes(world: World, live_redis: redis.Redis) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    version = published().version
    world.process("decode-1").load = WorkerLoad(
        running=9, waiting=9, waiting_tokens=9, kv_blocks_used=9, kv_blocks_total=100
    )
    world.report()
    world.sweep()
    assert published().version == version

    world.process("decode-1").phase = WorkerPhase.BACKOFF
    world.report()
    assert published().version > version


def test_the_sweep_publishes_again_what_redis_lost(world: World, live_redis: redis.Redis) -> None:
    """F12: the server came back empty."""
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    before = published()
    live_redis.flushall()
    world.sweep()

    assert published().deployments == before.deployments
    assert published().version > before.version
    assert live_redis.exists(names.KEY_TABLE_KEY)


def test_a_restored_database_outdoes_the_version_that_redis_holds(world: World, live_redis: redis.Redis) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    ahead = RoutingTable(version=published().version + 10**9, deployments=())
    live_redis.set(names.ROUTING_TABLE_KEY, codec.encode(ahead))
    world.sweep()

    assert published().version == ahead.version + 1
    assert workers(published()) == {"prefill-1", "decode-1"}
    assert RoutingTableVersion.objects.get().version == ahead.version + 1


def test_without_redis_a_refresh_writes_nothing(world: World) -> None:
    routing_table_refresh()

    assert not RoutingTableVersion.objects.exists()
