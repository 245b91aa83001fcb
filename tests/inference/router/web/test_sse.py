"""Writing to a client that does not read has an end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from inference.router.turns import Turns
from inference.router.web.sse import ClientGone, EventWriter, event


async def hang(*_: Any) -> None:
    await asyncio.sleep(60)


async def succeed(*_: Any) -> None:
    return None


@pytest.mark.parametrize("hanging", ["prepare", "write", "write_eof"])
async def test_a_client_that_takes_nothing_more_is_gone_after_a_while(
    monkeypatch: pytest.MonkeyPatch, hanging: str
) -> None:
    for step in ("prepare", "write", "write_eof"):
        monkeypatch.setattr(web.StreamResponse, step, hang if step == hanging else succeed)
    writer = EventWriter(make_mocked_request("POST", "/"), write_s=0.02, turns=Turns())
    with pytest.raises(ClientGone):
        await write_all(writer)
    assert writer.begun


async def write_all(writer: EventWriter) -> None:
    await writer.write(event(b"{}"))
    await writer.end()
