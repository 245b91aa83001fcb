"""The playground's chat: the browser's login in, the serving API out, bytes streamed through as they come.

Everything of the answer is the router's: its stream, its refusals, its timings. Here is only what the browser must not
hold (the serving key) and what the router does not know (the login).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple, cast

import aiohttp
import msgspec
import structlog
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from controlplane.access.services import playground_key
from controlplane.core.rest.authentication import SessionAuthentication
from controlplane.core.rest.limits import max_body_bytes
from inference.contracts import codec, names

log = structlog.get_logger()

CHAT_PATH = "/v1/chat/completions"
CONNECT_WITHIN_S = 3.0

#: The router keeps its own deadlines on every leg; this one is for a router that has died without closing.
SILENT_AT_MOST_S = 300.0

#: A key made a moment ago reaches the router within about a second: a refusal is worth asking again so soon after.
KEY_PAUSES_S = (0.5, 1.0, 1.5)


BROKEN_OFF = "The router broke the answer off."


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    type: str
    code: str
    param: str | None = None


class ProblemAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An error as OpenAI's API words it, so that the playground reads ours and the router's alike."""

    error: Problem


class Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        kind = "server_error" if status >= 500 else "invalid_request_error"
        self.answer = ProblemAnswer(error=Problem(message=message, type=kind, code=code))


class Head(NamedTuple):
    status: int
    headers: dict[str, str]
    streams: bool


@csrf_exempt  # checked in `_check`, to be refused in this API's words
@require_POST
async def chat(request: HttpRequest) -> HttpResponseBase:
    """Forward a chat request to the router under the playground's key."""
    try:
        await _check(request)
        parts = _relay(_body(request), await sync_to_async(playground_key)())
        head = cast(Head, await _first(parts))
        content = cast(AsyncGenerator[bytes, None], parts)
        if not head.streams:
            return HttpResponse(await _rest(content), status=head.status, headers=head.headers)
        return StreamingHttpResponse(content, status=head.status, headers=head.headers)
    except Refused as refusal:
        return HttpResponse(codec.encode(refusal.answer), status=refusal.status, content_type="application/json")


async def _check(request: HttpRequest) -> None:
    if not (await request.auser()).is_authenticated:
        raise Refused(401, "not_authenticated", "Log in to use the playground.")
    if request.content_type != "application/json":
        raise Refused(415, "not_json", f"Send JSON; this is {request.content_type or 'of no type'}.")
    try:
        SessionAuthentication().enforce_csrf(cast(Request, request))
    except PermissionDenied as error:
        raise Refused(403, "csrf_failed", str(error.detail)) from error


def _body(request: HttpRequest) -> bytes:
    try:
        body = request.body
    except RequestDataTooBig:
        body = None
    if body is None or len(body) > max_body_bytes():
        raise Refused(413, "body_too_large", f"A chat request has at most {max_body_bytes()} bytes.")
    return body


async def _first(parts: AsyncGenerator[Head | bytes, None]) -> Head | bytes:
    try:
        return await anext(parts)
    except (aiohttp.ClientError, TimeoutError) as error:
        log.warning("router not reachable", url=settings.ROUTER_URL, error=str(error) or type(error).__name__)
        raise Refused(502, "router_unreachable", "The router does not answer; is it running?") from error


async def _rest(content: AsyncGenerator[bytes, None]) -> bytes:
    try:
        return b"".join([part async for part in content])
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Refused(502, "answer_broken_off", BROKEN_OFF) from error


async def _relay(body: bytes, key: str) -> AsyncGenerator[Head | bytes, None]:
    """The router's answer: first its head, then its bytes. Closing the generator, or cancelling who waits on it, hangs
    up on the router at once, which ends the generation on both sides.

    Raises:
        aiohttp.ClientError, TimeoutError: the router can't be reached, or an answer that is no stream broke off.
        Refused: the router does not take our key.
    """
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_WITHIN_S, sock_read=SILENT_AT_MOST_S)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", names.TIMINGS_HEADER: "1"}
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
        for pause in (*KEY_PAUSES_S, None):
            async with session.post(f"{settings.ROUTER_URL}{CHAT_PATH}", data=body) as response:
                if response.status != 401:
                    head = _head(response)
                    yield head
                    try:
                        async for chunk in response.content.iter_any():
                            yield chunk
                    except (aiohttp.ClientError, TimeoutError) as error:
                        log.warning("router broke off", error=str(error) or type(error).__name__)
                        if not head.streams:
                            raise
                        yield _last_event()
                    return
            if pause is not None:
                await asyncio.sleep(pause)
    log.error("the router does not take the playground's key", url=settings.ROUTER_URL)
    raise Refused(502, "key_refused", "The router does not know the playground's key; try again in a moment.")


def _head(response: aiohttp.ClientResponse) -> Head:
    content_type = response.headers.get("Content-Type", "application/json")
    headers = {"Content-Type": content_type, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    for name in (names.REQUEST_ID_HEADER, "Retry-After"):
        if name in response.headers:
            headers[name] = response.headers[name]
    return Head(response.status, headers, content_type.startswith("text/event-stream"))


def _last_event() -> bytes:
    """What a stream ends with that was broken off, instead of [DONE]."""
    refused = Refused(502, "answer_broken_off", BROKEN_OFF)
    return b"\n\ndata: " + codec.encode(refused.answer) + b"\n\n"
