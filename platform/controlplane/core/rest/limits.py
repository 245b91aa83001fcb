"""How much one request may send: without this, Django would first put a body of any size on disk, then look at it."""

from __future__ import annotations

from typing import Any

from django.conf import settings

#: What is read and thrown away beyond the limit, in limits: a client that is hung up on in the middle of a moderately
#: large body would see a broken connection instead of the 413.
_DISCARDED = 8


def max_body_bytes() -> int:
    return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


class BoundedBody:
    """ASGI middleware: no application gets more than one byte beyond the limit, by which it knows that it is too much
    and refuses in its own words."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        bounded = _Bounded(receive, max_body_bytes()) if scope["type"] == "http" else receive
        await self._application(scope, bounded, send)


class _Bounded:
    """`receive` of one request."""

    def __init__(self, receive: Any, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._room = limit + 1

    async def __call__(self) -> Any:
        message = await self._receive()
        while message["type"] == "http.request" and not self._room:  # cut already: only the end is of interest
            message = await self._receive()
        if message["type"] != "http.request":
            return message
        body = message.get("body", b"")
        kept, self._room = body[: self._room], self._room - len(body[: self._room])
        return message if self._room else await self._cut(message, kept)

    async def _cut(self, message: Any, kept: bytes) -> Any:
        discarded = 0
        while message["type"] == "http.request" and message.get("more_body") and discarded < _DISCARDED * self._limit:
            message = await self._receive()
            discarded += len(message.get("body", b""))
        return {"type": "http.request", "body": kept, "more_body": False}
