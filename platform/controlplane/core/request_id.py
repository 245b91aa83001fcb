"""One id for everything that a request causes: its answer, its log lines, its audit entries."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable

import structlog
from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from inference.contracts import names

#: What a caller may name its request: nothing that could begin a log line or a header of its own.
_SANE = re.compile(r"[A-Za-z0-9._:-]{1,100}")

Answering = Callable[[HttpRequest], HttpResponseBase] | Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@sync_and_async_middleware
def request_ids(get_response: Answering) -> Answering:
    """Django middleware: take over a sane X-Request-Id or make one; bind it to the log; send it back."""
    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> HttpResponseBase:
            request_id = _request_id(request)
            with structlog.contextvars.bound_contextvars(request_id=request_id):
                return _named(await get_response(request), request_id)

        return answer_async

    def answer(request: HttpRequest) -> HttpResponseBase:
        request_id = _request_id(request)
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            return _named(get_response(request), request_id)  # type: ignore[arg-type]

    return answer


def current_request_id() -> str:
    """Of the request that is being answered; empty outside of one."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))


def _request_id(request: HttpRequest) -> str:
    sent = request.headers.get(names.REQUEST_ID_HEADER, "")
    return sent if _SANE.fullmatch(sent) else f"req-{uuid.uuid4().hex}"


def _named(response: HttpResponseBase, request_id: str) -> HttpResponseBase:
    response.headers.setdefault(names.REQUEST_ID_HEADER, request_id)  # the router names those that it answers
    return response
