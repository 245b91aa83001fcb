"""A body that is too large is refused, announced or not, and never gets as far as a disk."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from controlplane.core.rest.limits import BoundedBody, max_body_bytes
from tests.control.console.server import serving

LIMIT = 1 << 20


class Caller:
    """An ASGI server's side of one request with a body in `parts`."""

    def __init__(self, *parts: bytes) -> None:
        self.messages = [
            {"type": "http.request", "body": part, "more_body": number < len(parts)}
            for number, part in enumerate(parts, 1)
        ]

    async def receive(self) -> dict[str, Any]:
        return self.messages.pop(0) if self.messages else {"type": "http.disconnect"}


async def read(caller: Caller) -> tuple[bytes, dict[str, Any]]:
    """What an application gets: the body, and what comes after it."""
    got: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message["body"]
            more = message.get("more_body", False)
        got.extend((body, await receive()))

    await BoundedBody(application)({"type": "http"}, caller.receive, None)
    return got[0], got[1]


async def test_a_body_within_the_limit_comes_as_it_is() -> None:
    assert max_body_bytes() == LIMIT
    for parts in ([b""], [b"abc"], [b"a" * LIMIT], [b"a" * 1000, b"b" * (LIMIT - 1000)]):
        assert await read(Caller(*parts)) == (b"".join(parts), {"type": "http.disconnect"})


@pytest.mark.parametrize("size", [LIMIT + 1, LIMIT + 2, 3 * LIMIT, 20 * LIMIT])
@pytest.mark.parametrize("piece", [64 * 1024, LIMIT, 2 * LIMIT])
async def test_of_a_larger_one_comes_one_byte_too_many_and_then_the_end(size: int, piece: int) -> None:
    body, after = await read(Caller(*(b"x" * min(piece, size - at) for at in range(0, size, piece))))

    assert len(body) == LIMIT + 1
    assert after == {"type": "http.disconnect"}


async def test_a_large_body_is_not_read_to_its_end_before_it_is_refused() -> None:
    caller = Caller(*(b"x" * LIMIT for _ in range(100)))
    seen: list[int] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        seen.append(len(caller.messages))

    await BoundedBody(application)({"type": "http"}, caller.receive, None)
    assert seen == [100 - 10]


@pytest.mark.django_db(transaction=True)
async def test_a_body_that_was_not_announced_is_read_like_any_other() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"username": "nobody",'
        yield b'"password": "x"}'

    with serving() as url:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
            csrf = (await (await browser.get(f"{url}/api/v1/session")).json())["csrf"]
            headers = {"Content-Type": "application/json", "X-CSRFToken": csrf, "Referer": url}
            async with browser.post(f"{url}/api/v1/session", data=chunks(), headers=headers) as answer:
                assert (await answer.json())["code"] == "bad_credentials"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("announced", [True, False], ids=["announced", "chunked"])
async def test_the_real_server_answers_413_in_the_words_of_the_api(announced: bool) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * LIMIT

    with serving() as url:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
            csrf = (await (await browser.get(f"{url}/api/v1/session")).json())["csrf"]
            headers = {"Content-Type": "application/json", "X-CSRFToken": csrf, "Referer": url}
            content = io.BytesIO(b"x" * (4 * LIMIT)) if announced else chunks()
            async with browser.post(f"{url}/api/v1/session", data=content, headers=headers) as answer:
                assert (answer.status, answer.content_type) == (413, "application/problem+json")
                assert (await answer.json())["code"] == "body_too_large"
