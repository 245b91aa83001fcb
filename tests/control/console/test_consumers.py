"""The console's socket, from login to outage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from django.db import OperationalError
from pytest_django import Settings

from controlplane.catalog.services import model_create
from controlplane.console import snapshot
from controlplane.console.consumers import CLOSE_SIGNED_OUT, NO_DATABASE, ConsoleConsumer
from controlplane.console.feed import feed_of_this_loop
from controlplane.console.hub import OUTAGE
from inference.contracts.console import ModelChanged, Snapshot
from inference.testing.valkey import ValkeyServer
from tests.control.console.browser import Browser
from tests.control.console.events import removed, send, tick

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres, pytest.mark.usefixtures("live_redis")]

Browse = Callable[..., Awaitable[Browser]]

model_create_async = sync_to_async(model_create)


async def test_without_a_login_the_socket_is_closed_with_a_code_of_its_own() -> None:
    stranger = Browser("/ws/console", "no-session")
    assert await stranger.open()
    assert await stranger.closing_code() == CLOSE_SIGNED_OUT
    await stranger.close()


async def test_another_site_cannot_open_the_socket_with_our_cookie(session_key: str) -> None:
    # Cookies know nothing of ports: the second would come with our login.
    for origin in ("http://evil.example", "http://localhost:3000", "http://[::1", "null", ""):
        foreign = Browser("/ws/console", session_key, origin=origin)
        assert not await foreign.open()
        await foreign.close()


async def test_a_page_of_a_trusted_origin_gets_as_far_as_the_login(settings: Settings) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["http://localhost:3000"]
    trusted = Browser("/ws/console", "no-session", origin="http://localhost:3000")
    assert await trusted.open()
    assert await trusted.closing_code() == CLOSE_SIGNED_OUT
    await trusted.close()


async def test_the_first_message_is_a_snapshot_and_then_events_come_in_order(browse: Browse) -> None:
    await model_create_async(name="known", path="/models/known")
    send(tick(1_800_000_000))
    browser = await browse()
    first = await browser.snapshot()
    assert [model.name for model in first.models] == ["known"]
    assert [frame.second for frame in first.frames] == [1_800_000_000]
    for n in range(5):
        send(removed(f"e{n}"))
    assert [await browser.event() for _ in range(5)] == [removed(f"e{n}") for n in range(5)]


async def test_what_changes_while_the_snapshot_is_made_is_not_missed(
    browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = snapshot.read

    def read_then_change(seq: str, frames: tuple) -> Snapshot:
        made = read(seq, frames)
        model_create(name="late", path="/models/late")
        return made

    monkeypatch.setattr(snapshot, "read", read_then_change)
    browser = await browse()
    assert (await browser.snapshot()).models == ()
    event = await browser.event()
    assert isinstance(event, ModelChanged)
    assert event.model.name == "late"


async def test_a_snapshot_does_not_come_with_events_that_it_contains(browse: Browse) -> None:
    watching = await browse()
    await watching.snapshot()
    await model_create_async(name="known", path="/models/known")
    assert isinstance(await watching.event(), ModelChanged)
    late = await browse()
    assert [model.name for model in (await late.snapshot()).models] == ["known"]
    assert await late.is_quiet()


async def test_a_reconnecting_browser_goes_on_where_it_was(browse: Browse) -> None:
    watching, leaving = await browse(), await browse()
    await watching.snapshot()
    await leaving.snapshot()
    seen = send(removed("seen"))
    assert await leaving.event() == await watching.event() == removed("seen")
    await leaving.close()
    send(removed("missed"))
    back = await browse(f"/ws/console?after={seen}")
    assert await back.event() == removed("missed")


@pytest.mark.parametrize("after", ["0-0", "7-7", "nonsense", "%00", ""])
async def test_a_position_that_means_nothing_is_answered_with_a_snapshot(browse: Browse, after: str) -> None:
    await (await browse(f"/ws/console?after={after}")).snapshot()


async def test_what_a_browser_says_is_not_listened_to(browse: Browse) -> None:
    browser = await browse()
    await browser.snapshot()
    await browser.say(text="drop table")
    await browser.say(bytes=b"\x00")
    send(removed("still here"))
    assert await browser.event() == removed("still here")


async def test_during_an_outage_of_redis_the_database_is_shown_and_said_to_be_maybe_old(
    browse: Browse, valkey: ValkeyServer
) -> None:
    watching = await browse()
    await watching.snapshot()
    valkey.stop()
    assert await watching.stale() == OUTAGE
    await model_create_async(name="unseen", path="/models/unseen")
    coming = await browse()
    shown = await coming.snapshot()
    assert (shown.seq, [model.name for model in shown.models]) == ("0-0", ["unseen"])
    assert await coming.stale() == OUTAGE
    valkey.start()
    for browser in (watching, coming):
        again = await browser.snapshot()
        assert [model.name for model in again.models] == ["unseen"]
    send(removed("news"))
    assert await watching.event() == await coming.event() == removed("news")


async def test_during_an_outage_of_the_database_the_browser_is_told_and_gets_its_snapshot_later(
    browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(seq: str, frames: tuple) -> Snapshot:
        raise OperationalError("connection refused")

    monkeypatch.setattr(ConsoleConsumer, "database_pause_s", 0.05)
    with monkeypatch.context() as away:
        away.setattr(snapshot, "read", fails)
        browser = await browse()
        assert await browser.stale() == NO_DATABASE
        assert await browser.is_quiet()
    await browser.snapshot()
    send(removed("news"))
    assert await browser.event() == removed("news")


async def test_a_login_that_ends_closes_the_socket(browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsoleConsumer, "login_checked_every_s", 0.2)
    browser = await browse()
    await browser.snapshot()
    assert await browser.is_quiet()
    await sync_to_async(Session.objects.all().delete)()
    assert await browser.closing_code() == CLOSE_SIGNED_OUT


async def test_a_browser_that_takes_nothing_is_given_up_and_leaves_nothing_behind(
    browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConsoleConsumer, "send_within_s", 0.2)
    sleeping = asyncio.Event()

    async def blocked(self: ConsoleConsumer, text_data: str) -> None:
        await sleeping.wait()

    monkeypatch.setattr(ConsoleConsumer, "send", blocked)
    await browse()
    hub = feed_of_this_loop().hub
    for _ in range(100):
        if hub._users == 0:
            break
        await asyncio.sleep(0.05)
    assert hub._users == 0
    assert not hub._subscriptions


async def test_many_browsers_that_ask_at_once_share_one_snapshot(
    browse: Browse, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    browsers = [await browse() for _ in range(8)]
    for browser in browsers:
        await browser.snapshot()
    valkey.stop()
    for browser in browsers:
        await browser.stale()
    made = 0
    read = snapshot.read

    def counted(seq: str, frames: tuple) -> Snapshot:
        nonlocal made
        made += 1
        return read(seq, frames)

    monkeypatch.setattr(snapshot, "read", counted)
    valkey.start()
    for browser in browsers:
        await browser.snapshot()
    assert made == 1


async def test_leaving_takes_the_subscription_away(browse: Browse) -> None:
    browser = await browse()
    await browser.snapshot()
    hub = feed_of_this_loop().hub
    assert len(hub._subscriptions) == 1
    await browser.close()
    assert not hub._subscriptions
