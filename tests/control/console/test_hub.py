"""One reader of the stream for many sockets: order, slowness, outages, resuming. With a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from controlplane.console.hub import OUTAGE, Hub, Limits
from controlplane.console.subscription import Event, Resync, Stale, Subscription
from controlplane.core.broadcast import append
from controlplane.core.redis import async_client, sync_client
from controlplane.telemetry.stream import BEGINNING, StreamId
from inference.contracts import codec, names
from inference.contracts.console import DeploymentRemoved, EventMessage
from inference.testing.valkey import ValkeyServer
from tests.control.console.events import removed, send, tick

pytestmark = pytest.mark.usefixtures("live_redis")

QUICK = Limits(block_s=0.2, settle_s=1.0, first_pause_s=0.05, longest_pause_s=0.1, linger_s=5.0, queue=10, batch=5)


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    hub = Hub(lambda: async_client(block_s=QUICK.block_s), QUICK)
    yield hub
    hub.end()


async def next_of(subscription: Subscription) -> Event | Resync | Stale:
    return await asyncio.wait_for(subscription.next(), 10)


async def resynced(subscription: Subscription, hub: Hub) -> None:
    """The next thing to send is a snapshot, and it was sent."""
    assert isinstance(await next_of(subscription), Resync)
    subscription.starts_after(hub.position)


async def names_of(subscription: Subscription, count: int) -> list[str]:
    found = []
    for _ in range(count):
        event = await next_of(subscription)
        assert isinstance(event, Event)
        message = codec.decode(event.text, EventMessage)
        assert message.seq == str(event.position)
        assert isinstance(message.event, DeploymentRemoved)
        found.append(message.event.name)
    return found


async def quiet(subscription: Subscription) -> bool:
    try:
        await asyncio.wait_for(subscription.next(), 0.4)
    except TimeoutError:
        return True
    return False


async def test_a_new_socket_is_asked_for_a_snapshot_first_and_then_gets_events_in_order(hub: Hub) -> None:
    send(removed("before"))
    async with hub.subscribe() as subscription:
        await resynced(subscription, hub)
        for n in range(7):
            send(removed(f"e{n}"))
        assert await names_of(subscription, 7) == [f"e{n}" for n in range(7)]
        assert await quiet(subscription)


async def test_all_sockets_get_every_event_from_one_reader(hub: Hub) -> None:
    async with hub.subscribe() as one, hub.subscribe() as other:
        await resynced(one, hub)
        await resynced(other, hub)
        send(removed("a"))
        assert await names_of(one, 1) == await names_of(other, 1) == ["a"]
        readers = [client for client in sync_client().client_list() if client["cmd"] == "xread"]
        assert len(readers) == 1


async def test_an_event_between_subscribing_and_the_snapshot_is_neither_lost_nor_sent_twice(hub: Hub) -> None:
    async with hub.subscribe() as subscription:
        assert isinstance(await next_of(subscription), Resync)
        contained = send(removed("contained"))
        while hub.position != StreamId.parse(contained):
            await asyncio.sleep(0.01)
        position = hub.position
        send(removed("after"))
        subscription.starts_after(position)
        assert await names_of(subscription, 1) == ["after"]


async def test_a_slow_socket_loses_its_queue_and_gets_a_snapshot_while_others_go_on(hub: Hub) -> None:
    async with hub.subscribe() as slow, hub.subscribe() as fast:
        await resynced(slow, hub)
        await resynced(fast, hub)
        for n in range(50):
            send(removed(f"e{n}"))
            assert await names_of(fast, 1) == [f"e{n}"]
            assert len(slow._events) <= QUICK.queue
        await resynced(slow, hub)
        assert await quiet(slow)
        send(removed("news"))
        assert await names_of(slow, 1) == ["news"]


async def test_an_outage_is_told_and_its_end_is_a_snapshot(hub: Hub, valkey: ValkeyServer) -> None:
    async with hub.subscribe() as subscription:
        await resynced(subscription, hub)
        valkey.kill()
        assert await next_of(subscription) == Stale(OUTAGE)
        assert hub.outage == OUTAGE
        valkey.start()
        await resynced(subscription, hub)
        assert hub.outage is None
        send(removed("news"))
        assert await names_of(subscription, 1) == ["news"]


async def test_a_server_that_hangs_is_an_outage_too(hub: Hub, valkey: ValkeyServer) -> None:
    async with hub.subscribe() as subscription:
        await resynced(subscription, hub)
        valkey.freeze()
        try:
            assert await next_of(subscription) == Stale(OUTAGE)
        finally:
            valkey.thaw()
        await resynced(subscription, hub)


async def test_a_socket_that_comes_during_an_outage_is_served_in_bounded_time(hub: Hub, valkey: ValkeyServer) -> None:
    valkey.stop()
    async with hub.subscribe() as subscription:
        assert isinstance(await next_of(subscription), Resync)
        assert hub.outage == OUTAGE
        valkey.start()
        await resynced(subscription, hub)
        assert hub.outage is None


async def test_when_redis_lost_its_data_everybody_gets_a_snapshot_and_new_events(
    hub: Hub, valkey: ValkeyServer
) -> None:
    async with hub.subscribe() as subscription:
        await resynced(subscription, hub)
        send(removed("a"))
        assert await names_of(subscription, 1) == ["a"]
        sync_client().delete(names.CONSOLE_STREAM)
        await resynced(subscription, hub)
        assert hub.position == BEGINNING
        send(removed("old clock"), position="7-0")
        assert await names_of(subscription, 1) == ["old clock"]


async def test_a_stream_trimmed_beyond_the_reader_is_a_snapshot_not_a_gap(hub: Hub, valkey: ValkeyServer) -> None:
    async with hub.subscribe() as subscription:
        await resynced(subscription, hub)
        send(removed("a"))
        assert await names_of(subscription, 1) == ["a"]
        pipeline = sync_client().pipeline(transaction=True)  # the reader sees all of it at once
        for n in range(20):
            pipeline.xadd(names.CONSOLE_STREAM, {names.STREAM_FIELD: codec.encode(removed(f"e{n}"))})
        pipeline.xtrim(names.CONSOLE_STREAM, maxlen=10, approximate=False)
        pipeline.execute()
        await resynced(subscription, hub)
        assert await quiet(subscription)


async def test_a_socket_resumes_where_it_was(hub: Hub) -> None:
    async with hub.subscribe() as subscription:
        await resynced(subscription, hub)
        seen = send(removed("seen"))
        await names_of(subscription, 1)
    send(removed("missed 1"))
    send(removed("missed 2"))
    async with hub.subscribe(after=StreamId.parse(seen)) as subscription:
        assert await names_of(subscription, 2) == ["missed 1", "missed 2"]
        send(removed("news"))
        assert await names_of(subscription, 1) == ["news"]
        assert await quiet(subscription)


async def test_resuming_is_refused_for_a_position_that_the_stream_does_not_have(hub: Hub) -> None:
    async with hub.subscribe():
        seen = send(removed("seen"))
        while str(hub.position) != seen:
            await asyncio.sleep(0.01)
        async with hub.subscribe(after=StreamId(hub.position.ms + 1, 5)) as subscription:
            await resynced(subscription, hub)
        sync_client().xtrim(names.CONSOLE_STREAM, maxlen=0, approximate=False)
        async with hub.subscribe(after=StreamId.parse(seen)) as subscription:
            await resynced(subscription, hub)


async def test_resuming_is_refused_from_before_the_reader_looked_since_events_may_be_missing(hub: Hub) -> None:
    seen = send(removed("seen"))
    send(removed("later"))
    async with hub.subscribe(after=StreamId.parse(seen)) as subscription:
        await resynced(subscription, hub)


async def test_resuming_is_refused_over_an_outage(hub: Hub, valkey: ValkeyServer) -> None:
    async with hub.subscribe() as subscription:
        await resynced(subscription, hub)
        seen = send(removed("seen"))
        await names_of(subscription, 1)
        valkey.kill()
        assert isinstance(await next_of(subscription), Stale)
        valkey.start()
        await resynced(subscription, hub)
        send(removed("news"))
        async with hub.subscribe(after=StreamId.parse(seen)) as other:
            await resynced(other, hub)


async def test_resuming_over_more_than_a_queue_is_a_snapshot(hub: Hub) -> None:
    async with hub.subscribe():
        seen = send(removed("seen"))
        for n in range(QUICK.queue + 1):
            send(removed(f"e{n}"))
        async with hub.subscribe(after=StreamId.parse(seen)) as subscription:
            await resynced(subscription, hub)


async def test_the_frames_of_the_last_ten_minutes_are_there_from_the_start_and_kept_up_to_date(hub: Hub) -> None:
    now = 1_900_000_000
    send(tick(now - 700), position=f"{(now - 700) * 1000}-0")
    send(tick(now - 500), position=f"{(now - 500) * 1000}-0")
    send(removed("x"), position=f"{now * 1000}-0")
    async with hub.subscribe() as subscription:
        await resynced(subscription, hub)
        assert [frame.second for frame in hub.frames] == [now - 500]
        send(tick(now), position=f"{now * 1000}-1")
        await next_of(subscription)
        assert [frame.second for frame in hub.frames] == [now - 500, now]


async def test_however_many_events_there_are_frames_stay(hub: Hub) -> None:
    append(tick(1_900_000_000))
    for n in range(50):
        append(removed(f"e{n}"))
    sync_client().xtrim(names.CONSOLE_STREAM, maxlen=10, approximate=False)
    async with hub.subscribe() as subscription:
        await resynced(subscription, hub)
        assert [frame.second for frame in hub.frames] == [1_900_000_000]


async def test_an_unreadable_entry_is_passed_over(hub: Hub) -> None:
    async with hub.subscribe() as subscription:
        await resynced(subscription, hub)
        for raw in (b"no json", b'{"type":"of.tomorrow"}', b'{"type":"node.changed"}'):
            sync_client().xadd(names.CONSOLE_STREAM, {names.STREAM_FIELD: raw})
        sync_client().xadd(names.CONSOLE_STREAM, {"other": b"field"})
        send(removed("news"))
        assert await names_of(subscription, 1) == ["news"]


async def test_the_reader_ends_when_the_last_socket_has_left_for_a_while() -> None:
    hub = Hub(lambda: async_client(block_s=0.2), Limits(block_s=0.2, linger_s=0.1))
    async with hub.subscribe():
        reader = hub._reader
        async with hub.subscribe():
            pass
        await asyncio.sleep(0.3)
        assert hub._reader is reader is not None
        assert not reader.done()
    await asyncio.sleep(0.3)
    assert hub._reader is None
    assert reader.done()
    async with hub.subscribe() as subscription:
        assert isinstance(await next_of(subscription), Resync)
    hub.end()
