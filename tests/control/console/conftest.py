"""Sockets of browsers against the real application, with a hub that notices everything quickly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.console import feed
from controlplane.console.feed import feed_of_this_loop
from controlplane.console.hub import Limits
from tests.control.console.browser import Browser

QUICK = Limits(block_s=0.2, settle_s=1.0, first_pause_s=0.05, longest_pause_s=0.1, linger_s=5.0)


@pytest.fixture
def session_key(operator: User) -> str:
    """Of a logged-in operator."""
    client = Client()
    client.force_login(operator)
    return client.cookies["sessionid"].value


@pytest.fixture
async def browse(monkeypatch: pytest.MonkeyPatch, session_key: str) -> AsyncIterator[Callable[..., Awaitable[Browser]]]:
    """Opens sockets of the operator's; all are closed at the end."""
    monkeypatch.setattr(feed, "Limits", lambda: QUICK)
    opened: list[Browser] = []

    async def browse(path: str = "/ws/console") -> Browser:
        browser = Browser(path, session_key)
        opened.append(browser)
        assert await browser.open()
        return browser

    yield browse
    for browser in opened:
        await browser.close()
    feed_of_this_loop().hub.end()
