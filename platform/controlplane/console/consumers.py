"""The console's socket: a snapshot first, then every event behind it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs

import structlog
from channels.auth import get_user
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import Error

from controlplane.console.feed import Feed, feed_of_this_loop
from controlplane.console.snapshot import Sent
from controlplane.console.subscription import Event, Resync, Stale, Subscription
from controlplane.telemetry.stream import StreamId
from inference.contracts import codec
from inference.contracts.console import StaleMessage

log = structlog.get_logger()

CLOSE_SIGNED_OUT = 4401
CLOSE_FAILED = 1011

NO_DATABASE = "The control plane can't read its database, so changes are not seen at the moment."


class ConsoleConsumer(AsyncWebsocketConsumer):
    """Only sends; what a browser says is not listened to.

    send_within_s: a browser that takes nothing for so long is given up. login_checked_every_s: how soon a socket
    notices that its login has ended. database_pause_s: between tries to read a snapshot.
    """

    send_within_s = 30.0
    login_checked_every_s = 60.0
    database_pause_s = 2.0

    _feeding: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        # Accepted first: a close code reaches the browser only on an open socket.
        await self.accept()
        if not self.scope["user"].is_authenticated:
            await self.close(CLOSE_SIGNED_OUT)
            return
        self._feeding = asyncio.create_task(self._feed(feed_of_this_loop()), name="console-socket")

    async def disconnect(self, code: int) -> None:
        if self._feeding is not None:
            self._feeding.cancel()
            with suppress(asyncio.CancelledError):
                await self._feeding

    async def _feed(self, feed: Feed) -> None:
        try:
            async with feed.hub.subscribe(_position_in(self.scope)) as subscription:
                await self._send_everything(feed, subscription)
        except TimeoutError:
            log.info("console socket given up: the browser takes nothing", after_s=self.send_within_s)
        except OSError:
            log.debug("console socket went away")
        except Exception:
            log.exception("console socket failed")
            await self.close(CLOSE_FAILED)

    async def _send_everything(self, feed: Feed, subscription: Subscription) -> None:
        login_checked_at = time.monotonic()
        while True:
            item = None
            with suppress(TimeoutError):
                async with asyncio.timeout(self.login_checked_every_s):
                    item = await subscription.next()
            if time.monotonic() - login_checked_at >= self.login_checked_every_s:
                login_checked_at = time.monotonic()
                if not await self._still_logged_in():
                    await self.close(CLOSE_SIGNED_OUT)
                    return
            match item:
                case Event():
                    await self._send(item.text)
                case Stale():
                    await self._send_stale(item.reason)
                case Resync():
                    await self._send_snapshot(feed, subscription)

    async def _send_snapshot(self, feed: Feed, subscription: Subscription) -> None:
        snapshot = await self._take_snapshot(feed)
        subscription.starts_after(snapshot.position)
        await self._send(snapshot.text)
        if feed.hub.outage is not None:
            subscription.stale(feed.hub.outage)

    async def _take_snapshot(self, feed: Feed) -> Sent:
        """Waits for the database as long as it takes; the browser is told once that it has to."""
        told = False
        while True:
            try:
                return await feed.desk.take()
            except Error as error:
                log.warning("no snapshot", error=str(error), next_try_s=self.database_pause_s)
            if not told:
                await self._send_stale(NO_DATABASE)
                told = True
            await asyncio.sleep(self.database_pause_s)

    async def _send_stale(self, reason: str) -> None:
        await self._send(codec.encode_text(StaleMessage(reason=reason)))

    async def _send(self, text: str) -> None:
        """
        Raises:
            TimeoutError: the browser takes nothing.
            OSError: it has gone.
        """
        async with asyncio.timeout(self.send_within_s):
            await self.send(text_data=text)

    async def _still_logged_in(self) -> bool:
        session = import_module(settings.SESSION_ENGINE).SessionStore(self.scope["session"].session_key)
        try:
            user: Any = await get_user({"session": session})
        except Error:
            return True  # can't be known now; it is asked again
        return bool(user.is_authenticated) and user.pk == self.scope["user"].pk


def _position_in(scope: dict[str, Any]) -> StreamId | None:
    """`?after=<position>`; what is none asks for a snapshot, as a first visit does."""
    values = parse_qs(scope["query_string"].decode("latin-1")).get("after", [])
    try:
        return StreamId.parse(values[0]) if values else None
    except ValueError:
        return None
