"""The playground's chat, over real sockets: browser - uvicorn - a router that does as the test says."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import aiohttp
import pytest
from aiohttp import web
from pytest_django.fixtures import Settings

from controlplane.access.services import playground_key
from controlplane.console import playground
from controlplane.core.rest.limits import max_body_bytes
from inference.contracts.names import REQUEST_ID_HEADER, TIMINGS_HEADER
from tests.control.console.server import serving

pytestmark = pytest.mark.django_db(transaction=True)

BODY = b'{"model": "chat",  "messages": [], "stream": true, "x": "\xed\x95\x9c"}'
CSRF = "a" * 32
EVENT = b'data: {"choices": []}\n\n'

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Router:
    """Answers chats as `answer` says. seen: the requests. hung_up: set when the caller left in the middle."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, str], bytes]] = []
        self.hung_up = asyncio.Event()
        self.answer: Answer = self.one_event

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((dict(request.headers), await request.read()))
        try:
            return await self.answer(request)
        except (asyncio.CancelledError, ConnectionResetError):
            # Which of the two depends on where the handler stood: waiting, or in the middle of a write.
            self.hung_up.set()
            raise

    async def started(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", REQUEST_ID_HEADER: "r-1"})
        await response.prepare(request)
        await response.write(EVENT)
        return response

    async def one_event(self, request: web.Request) -> web.StreamResponse:
        response = await self.started(request)
        await response.write(b"data: [DONE]\n\n")
        return response

    async def never_ends(self, request: web.Request) -> web.StreamResponse:
        await self.started(request)
        await asyncio.sleep(60)
        raise AssertionError("nobody hung up")


@pytest.fixture
async def router(settings: Settings) -> AsyncIterator[Router]:
    router = Router()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", router.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    settings.ROUTER_URL = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield router
    await runner.cleanup()


@pytest.fixture
def address(db: None) -> Iterator[str]:
    with serving() as url:
        yield f"{url}/api/v1/playground/chat"


@pytest.fixture
async def browser(session_key: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Of a logged-in operator, with the CSRF token where it belongs."""
    cookies = {"sessionid": session_key, "csrftoken": CSRF}
    headers = {"X-CSRFToken": CSRF, "Content-Type": "application/json"}
    async with aiohttp.ClientSession(cookies=cookies, headers=headers) as session:
        yield session


async def error_of(response: aiohttp.ClientResponse) -> tuple[int, str]:
    error = (await response.json())["error"]
    assert error["message"]
    assert error["type"] in ("invalid_request_error", "server_error")
    return response.status, error["code"]


async def test_bytes_of_the_router_come_through_as_they_are(
    router: Router, address: str, browser: aiohttp.ClientSession
) -> None:
    async with browser.post(address, data=BODY) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-cache"
        assert response.headers[REQUEST_ID_HEADER] == "r-1"
        assert await response.read() == EVENT + b"data: [DONE]\n\n"
    (headers, body) = router.seen[0]
    assert body == BODY
    assert headers[TIMINGS_HEADER] == "1"
    assert headers["Authorization"] == f"Bearer {await asyncio.to_thread(playground_key)}"
    assert "Cookie" not in headers


async def test_an_event_arrives_before_the_next_one_is_sent(
    router: Router, address: str, browser: aiohttp.ClientSession
) -> None:
    arrived = asyncio.Event()

    async def waits_for_the_browser(request: web.Request) -> web.StreamResponse:
        response = await router.started(request)
        await asyncio.wait_for(arrived.wait(), 10)
        await response.write(b"data: second\n\n")
        return response

    router.answer = waits_for_the_browser
    async with browser.post(address, data=BODY) as response:
        assert await response.content.readany() == EVENT
        arrived.set()
        assert await response.read() == b"data: second\n\n"


async def test_stop_in_the_middle_of_an_answer_hangs_up_on_the_router(
    router: Router, address: str, browser: aiohttp.ClientSession
) -> None:
    router.answer = router.never_ends
    async with browser.post(address, data=BODY) as response:
        await response.content.readany()
        response.close()
    await asyncio.wait_for(router.hung_up.wait(), 5)


async def test_stop_before_the_first_token_hangs_up_on_the_router(
    router: Router, address: str, browser: aiohttp.ClientSession
) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError("nobody hung up")

    router.answer = silent
    asking = asyncio.create_task(browser.post(address, data=BODY))
    while not router.seen:
        await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait_for(router.hung_up.wait(), 5)


async def test_a_browser_that_reads_nothing_and_leaves_hangs_up_on_the_router(
    router: Router, address: str, browser: aiohttp.ClientSession
) -> None:
    async def floods(request: web.Request) -> web.StreamResponse:
        response = await router.started(request)
        while True:
            await response.write(EVENT * 1000)

    router.answer = floods
    async with browser.post(address, data=BODY) as response:
        await asyncio.sleep(0.5)
        response.close()
    async with asyncio.timeout(5):
        while not router.hung_up.is_set():
            await asyncio.sleep(0.01)


async def test_a_refusal_of_the_router_is_the_answer(
    router: Router, address: str, browser: aiohttp.ClientSession
) -> None:
    async def busy(request: web.Request) -> web.StreamResponse:
        error = {"error": {"message": "No pair is ready.", "type": "server_error", "code": "not_ready"}}
        return web.json_response(error, status=503, headers={"Retry-After": "2"})

    router.answer = busy
    async with browser.post(address, data=BODY) as response:
        assert await error_of(response) == (503, "not_ready")
        assert response.headers["Retry-After"] == "2"


async def test_a_router_that_is_not_there_is_said_in_a_sentence(
    settings: Settings, address: str, browser: aiohttp.ClientSession
) -> None:
    settings.ROUTER_URL = "http://127.0.0.1:1"
    async with browser.post(address, data=BODY) as response:
        assert await error_of(response) == (502, "router_unreachable")


async def test_a_router_that_breaks_off_leaves_an_error_at_the_end_of_the_stream(
    router: Router, address: str, browser: aiohttp.ClientSession
) -> None:
    arrived = asyncio.Event()

    async def dies(request: web.Request) -> web.StreamResponse:
        response = await router.started(request)
        await asyncio.wait_for(arrived.wait(), 10)
        assert request.transport is not None
        request.transport.close()
        return response

    router.answer = dies
    async with browser.post(address, data=BODY) as response:
        assert await response.content.readany() == EVENT
        arrived.set()
        rest = await response.read()
    assert b'"code":"answer_broken_off"' in rest
    assert b"[DONE]" not in rest


async def test_a_router_that_breaks_off_an_answer_that_is_no_stream_is_an_error(
    router: Router, address: str, browser: aiohttp.ClientSession
) -> None:
    async def dies(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"half"')
        assert request.transport is not None
        request.transport.close()
        return response

    router.answer = dies
    async with browser.post(address, data=BODY) as response:
        assert await error_of(response) == (502, "answer_broken_off")


async def test_a_router_that_falls_silent_is_given_up(
    router: Router, address: str, browser: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playground, "SILENT_AT_MOST_S", 0.3)
    router.answer = router.never_ends
    async with browser.post(address, data=BODY) as response:
        assert b'"code":"answer_broken_off"' in await response.read()
    await asyncio.wait_for(router.hung_up.wait(), 5)


async def test_a_key_that_the_router_has_not_heard_of_yet_is_tried_again(
    router: Router, address: str, browser: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playground, "KEY_PAUSES_S", (0.01, 0.01))

    async def learns(request: web.Request) -> web.StreamResponse:
        return await router.one_event(request) if len(router.seen) > 2 else web.json_response({}, status=401)

    router.answer = learns
    async with browser.post(address, data=BODY) as response:
        assert response.status == 200
        assert await response.read() == EVENT + b"data: [DONE]\n\n"


async def test_a_key_that_stays_unknown_does_not_look_like_a_lost_login(
    router: Router, address: str, browser: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playground, "KEY_PAUSES_S", (0.01, 0.01))

    async def refuses(request: web.Request) -> web.StreamResponse:
        return web.json_response({}, status=401)

    router.answer = refuses
    async with browser.post(address, data=BODY) as response:
        assert await error_of(response) == (502, "key_refused")
    assert len(router.seen) == 3


async def test_without_a_login_nothing_reaches_the_router(router: Router, address: str) -> None:
    async with (
        aiohttp.ClientSession() as stranger,
        stranger.post(address, data=BODY, headers={"Content-Type": "application/json"}) as response,
    ):
        assert await error_of(response) == (401, "not_authenticated")
    assert not router.seen


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"X-CSRFToken": ""}, BODY, (403, "csrf_failed")),
        ({"X-CSRFToken": "b" * 32}, BODY, (403, "csrf_failed")),
        ({"Content-Type": "text/plain"}, BODY, (415, "not_json")),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"a=b", (415, "not_json")),
        ({}, b" " * (max_body_bytes() + 1), (413, "body_too_large")),
        ({}, b" " * (4 * max_body_bytes()), (413, "body_too_large")),
    ],
    ids=["no csrf", "wrong csrf", "text", "form", "too large", "far too large"],
)
async def test_what_is_refused_does_not_reach_the_router(
    router: Router,
    address: str,
    browser: aiohttp.ClientSession,
    headers: dict[str, str],
    body: bytes,
    expected: tuple[int, str],
) -> None:
    async with browser.post(address, data=io.BytesIO(body), headers=headers) as response:
        assert await error_of(response) == expected
    assert not router.seen


async def test_only_posts_are_taken(address: str, browser: aiohttp.ClientSession) -> None:
    async with browser.get(address) as response:
        assert response.status == 405
