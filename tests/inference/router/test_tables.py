"""Tables and Redis: serving goes on without it, and everything catches up when it is back."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import stat
import threading
from pathlib import Path

import pytest
import redis.asyncio

from inference.contracts import auth, codec, names
from inference.contracts.routing import DeploymentRoute, KeyTable, RoutingTable, ServingKeyEntry
from inference.contracts.states import Role
from inference.process.tasks import end
from inference.router.config import Intervals
from inference.router.table import BEGINNING_BYTES, TableKeeper
from inference.router.table_file import CACHE_FILE
from inference.testing.valkey import ValkeyServer
from tests.inference.router.conftest import LONG, SHORT, Bench, eventually


async def subscribed(bench: Bench) -> None:
    await eventually(lambda: dict(bench.redis.pubsub_numsub(names.ROUTING_TABLE_CHANNEL)).popitem()[1] > 0)


async def test_a_changed_table_is_in_force_at_once(bench: Bench) -> None:
    old, new = bench.worker(Role.UNIFIED), bench.worker(Role.UNIFIED)
    bench.intervals = dataclasses.replace(bench.intervals, table_poll_s=600.0)
    await bench.start()
    await subscribed(bench)
    bench.publish([new])
    await eventually(lambda: len(bench.router.tables.deployments[0].workers) == 1)
    assert (await bench.chat(SHORT))[0] == 200
    assert not old.calls


async def test_a_change_is_found_even_when_nobody_says_so(bench: Bench) -> None:
    await bench.start()
    table = RoutingTable(version=1000, deployments=())
    await asyncio.to_thread(bench.redis.set, names.ROUTING_TABLE_KEY, codec.encode(table))
    await eventually(lambda: bench.router.tables.routing == table)


async def test_a_revoked_key_ends_at_once(bench: Bench) -> None:
    bench.worker(Role.UNIFIED)
    bench.intervals = dataclasses.replace(bench.intervals, table_poll_s=600.0)
    await bench.start()
    await subscribed(bench)
    assert (await bench.chat(SHORT))[0] == 200
    keyring = bench.router.tables.keyring
    bench.keys.clear()
    bench.publish()
    await eventually(lambda: bench.router.tables.keyring is not keyring)
    status, answer = await bench.chat(SHORT)
    assert (status, answer["error"]["code"]) == (401, "invalid_api_key")


async def test_a_revoked_key_ends_within_a_second_though_its_announcement_is_lost(bench: Bench) -> None:
    """As where Redis dropped the message or the subscription. In seconds of the loop's steady clock."""
    bench.worker(Role.UNIFIED)
    bench.intervals = dataclasses.replace(bench.intervals, table_poll_s=Intervals().table_poll_s)
    await bench.start()
    await subscribed(bench)
    clock = asyncio.get_running_loop().time
    for version in range(1000, 1004):
        other = ServingKeyEntry(key_id="other", digest=auth.key_digest(f"sk-{version}"))
        keyring = bench.router.tables.keyring
        await asyncio.to_thread(
            bench.redis.set, names.KEY_TABLE_KEY, codec.encode(KeyTable(version=version, keys=(other,)))
        )
        revoked = clock()
        await eventually(lambda before=keyring: bench.router.tables.keyring is not before)
        assert clock() - revoked < 1.0
        assert (await bench.chat(SHORT))[0] == 401


async def test_streams_and_new_requests_outlive_redis(bench_of_its_own: Bench) -> None:
    bench = bench_of_its_own
    _, decode = bench.pair()
    decode.pace_s = 0.05
    await bench.start()
    running = [asyncio.create_task(bench.stream(LONG)) for _ in range(3)]
    await eventually(lambda: decode.streams["generate"] == 3)
    await asyncio.to_thread(bench.server.kill)
    for events in await asyncio.gather(*running):
        assert events[-1] == (None, "[DONE]")
    for text in (LONG, SHORT):
        assert (await bench.chat(text))[0] == 200
    await asyncio.sleep(0.5)
    assert (await bench.chat(LONG))[0] == 200

    await asyncio.to_thread(bench.server.start, empty=True)
    await asyncio.sleep(0.4)
    assert (await bench.chat(LONG))[0] == 200  # an empty Redis is no empty table
    bench.publish([decode])
    await eventually(lambda: len(bench.router.tables.deployments[0].workers) == 1)
    await eventually(lambda: sum(w.counters.get("completed", 0) for w in bench.windows() if w.revision is None) >= 7)


async def test_a_frozen_redis_holds_nothing_up(bench_of_its_own: Bench) -> None:
    bench = bench_of_its_own
    bench.pair()
    await bench.start()
    bench.server.freeze()
    for _ in range(3):
        status, _ = await asyncio.wait_for(bench.chat(LONG), 1.0)
        assert status == 200
        await asyncio.sleep(0.3)
    bench.server.thaw()
    bench.publish([])
    await eventually(lambda: bench.router.tables.deployments[0].workers == ())


async def test_a_router_that_starts_without_redis_serves_from_the_cached_tables(bench_of_its_own: Bench) -> None:
    bench = bench_of_its_own
    bench.pair()
    await bench.start()
    await bench.restart_router(lambda: bench.server.kill())
    async with bench.http.get("/health/ready") as answer:
        assert answer.status == 200
    assert (await bench.chat(LONG))[0] == 200
    file = bench.data_dir / CACHE_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in bench.data_dir.iterdir()] == [CACHE_FILE]


async def test_without_any_table_the_router_is_not_ready_and_never_open(bench_of_its_own: Bench) -> None:
    bench = bench_of_its_own
    bench.worker(Role.UNIFIED)
    bench.server.kill()
    await bench.start()
    async with bench.http.get("/health/ready") as answer:
        assert answer.status == 503
        assert (await answer.json())["status"] == "no routing table yet; no key table yet"
    assert (await bench.chat(SHORT))[0] == 503
    assert not bench.workers[0].calls
    await asyncio.to_thread(bench.server.start)
    bench.publish()
    await eventually(lambda: bench.router.tables.keyring is not None)
    assert (await bench.chat(SHORT))[0] == 200


# --- the keeper alone --------------------------------------------------------------------------------------------


@pytest.fixture
async def client(valkey_server_for_routers: ValkeyServer):
    client = redis.asyncio.Redis.from_url(valkey_server_for_routers.url)
    await client.flushall()
    yield client
    await client.flushall()
    await client.aclose()


def table(version: int, *names_: str) -> RoutingTable:
    return RoutingTable(
        version=version,
        deployments=tuple(
            DeploymentRoute(
                name=name,
                model_name=f"model-of-{name}",
                created=0,
                context_length=None,
                local_prefill_tokens=0,
                default_max_tokens=1,
                workers=(),
            )
            for name in names_
        ),
    )


async def put(client: redis.asyncio.Redis, routing: RoutingTable | bytes, keys: KeyTable | bytes | None = None) -> None:
    await client.set(names.ROUTING_TABLE_KEY, routing if isinstance(routing, bytes) else codec.encode(routing))
    if keys is not None:
        await client.set(names.KEY_TABLE_KEY, keys if isinstance(keys, bytes) else codec.encode(keys))


@pytest.mark.parametrize("published", [RoutingTable(version=10**15, deployments=()), KeyTable(version=10**15, keys=())])
def test_a_table_begins_with_its_version(published: RoutingTable | KeyTable) -> None:
    """Of which no two that are published have the same: so its beginning tells whether it is new."""
    assert str(10**15).encode() in codec.encode(published)[:BEGINNING_BYTES]


async def test_of_tables_that_are_as_they_were_only_the_beginnings_are_read(
    client: redis.asyncio.Redis, tmp_path: Path
) -> None:
    async def reads() -> int:
        return (await client.info("commandstats"))["cmdstat_mget"]["calls"]

    keeper = TableKeeper(client, tmp_path, 1.0)
    await put(client, table(1, "chat"), KeyTable(version=1, keys=()))
    await keeper.start()
    before = await reads()
    for _ in range(5):
        await keeper.start()
    assert await reads() == before
    await put(client, table(2, "chat"))  # of the same length
    await keeper.start()
    assert await reads() == before + 1
    assert keeper.routing == table(2, "chat")
    assert keeper.keyring is not None


async def test_who_remembers_is_told_of_each_new_table_once_it_is_in_use(
    client: redis.asyncio.Redis, tmp_path: Path
) -> None:
    told: list[frozenset[str]] = []
    keeper = TableKeeper(client, tmp_path, 1.0, lambda: told.append(keeper.named.deployments))
    for version, name in ((1, "one"), (1, "one"), (2, "two")):
        await put(client, table(version, name))
        await keeper.start()
    assert told == [{"one"}, {"two"}]


async def test_a_disk_that_hangs_holds_no_table_up(
    client: redis.asyncio.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thaws = threading.Event()
    keeper = TableKeeper(client, tmp_path, 0.05)
    await keeper.start()
    monkeypatch.setattr(keeper._file, "write", lambda cached: thaws.wait(60.0))
    jobs = [asyncio.create_task(job()) for job in (keeper.run, keeper.run_writer)]
    for version in (1, 2):
        await put(client, table(version))
        await eventually(lambda version=version: keeper.routing == table(version))
    thaws.set()
    await end(jobs)


async def test_an_older_table_is_ignored(client: redis.asyncio.Redis, tmp_path: Path) -> None:
    keeper = TableKeeper(client, tmp_path, 1.0)
    for version, expected in ((5, 5), (4, 5), (5, 5), (6, 6)):
        await put(client, table(version))
        await keeper.start()
        assert keeper.routing is not None
        assert keeper.routing.version == expected


@pytest.mark.parametrize("garbage", [b"", b"{", b"\xff\xfe", b'{"version": "x"}', b"[1]"])
async def test_garbage_is_ignored(client: redis.asyncio.Redis, tmp_path: Path, garbage: bytes) -> None:
    keeper = TableKeeper(client, tmp_path, 1.0)
    keys = KeyTable(version=1, keys=(ServingKeyEntry(key_id="k", digest=auth.key_digest("sk")),))
    await put(client, table(1, "chat"), keys)
    await keeper.start()
    await put(client, garbage, garbage)
    await keeper.start()
    assert keeper.routing == table(1, "chat")
    assert keeper.keyring is not None
    assert keeper.keyring.check("Bearer sk", 0.0).key_id == "k"


async def test_a_published_table_replaces_one_from_the_file_whatever_its_version(
    client: redis.asyncio.Redis, tmp_path: Path
) -> None:
    """The control plane may have begun anew with version 1."""
    await put(client, table(50, "old"))
    await TableKeeper(client, tmp_path, 1.0).start()
    await put(client, table(1, "new"))
    keeper = TableKeeper(client, tmp_path, 1.0)
    await keeper.start()
    assert keeper.routing == table(1, "new")


@pytest.mark.parametrize("content", [b"", b"not json", json.dumps({"routing": 1, "keys": 2}).encode()])
async def test_a_broken_file_is_like_none(client: redis.asyncio.Redis, tmp_path: Path, content: bytes) -> None:
    (tmp_path / CACHE_FILE).write_bytes(content)
    keeper = TableKeeper(client, tmp_path, 1.0)
    await keeper.start()
    assert keeper.routing is None
    assert keeper.keyring is None


async def test_a_file_that_cannot_be_written_does_not_stop_serving(client: redis.asyncio.Redis, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    keeper = TableKeeper(client, tmp_path / "data", 1.0)
    await put(client, table(1, "chat"))
    await keeper.start()
    assert keeper.find("chat") is not None


async def test_names_of_deployments_win_over_names_of_models(client: redis.asyncio.Redis, tmp_path: Path) -> None:
    keeper = TableKeeper(client, tmp_path, 1.0)
    await put(client, table(1, "b", "model-of-b"))
    await keeper.start()
    found = keeper.find("model-of-b")
    assert found is not None
    assert found.name == "model-of-b"
    assert keeper.find("nobody") is None
