"""Where an answer's text goes on its way to the client: into a stream of events, or into one JSON answer."""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from inference.contracts import codec
from inference.contracts.generation import Finished
from inference.contracts.timings import RequestTiming
from inference.router.errors import ApiError
from inference.router.openai_answer import Shape
from inference.router.sse import DONE, EventWriter, event


class Outlet(Protocol):
    @property
    def begun(self) -> bool:
        """Whether the client has received anything: then the answer can't be begun anew."""

    def restart(self) -> None:
        """Forget the text so far: the answer is begun anew."""

    async def send(self, text: str) -> None: ...

    async def finish(self, finished: Finished, timing: RequestTiming | None) -> web.StreamResponse: ...

    async def fail(self, error: ApiError) -> web.StreamResponse:
        """Tell the client in the stream where that has begun, else raise `error` for an answer with its status."""


class StreamOutlet:
    """Sends each piece of text as it comes."""

    def __init__(self, shape: Shape, writer: EventWriter, include_usage: bool) -> None:
        self._shape = shape
        self._writer = writer
        self._include_usage = include_usage

    @property
    def begun(self) -> bool:
        return self._writer.begun

    def restart(self) -> None:
        if self.begun:
            raise RuntimeError("the client has text of this answer: it can't be begun anew")

    async def send(self, text: str) -> None:
        await self._writer.write(self._opening() + event(self._shape.text(text)))

    async def finish(self, finished: Finished, timing: RequestTiming | None) -> web.StreamResponse:
        events = self._opening() + event(self._shape.closing(finished.reason))
        if self._include_usage:
            events += event(self._shape.usage(finished))
        if timing is not None:
            events += event(codec.encode(timing), "timings")
        await self._writer.write(events + DONE)
        return await self._writer.end()

    async def fail(self, error: ApiError) -> web.StreamResponse:
        """No finish reason and no [DONE]: a broken answer must not look complete."""
        if not self._writer.begun:
            raise error
        await self._writer.write(event(codec.encode(error.body)))
        return await self._writer.end()

    def _opening(self) -> bytes:
        opening = None if self._writer.begun else self._shape.opening()
        return b"" if opening is None else event(opening)


class WholeOutlet:
    """Collects the text for one answer."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._texts: list[str] = []

    @property
    def begun(self) -> bool:
        return False

    def restart(self) -> None:
        self._texts.clear()

    async def send(self, text: str) -> None:
        self._texts.append(text)

    async def finish(self, finished: Finished, timing: RequestTiming | None) -> web.StreamResponse:
        body = self._shape.whole("".join(self._texts), finished, timing)
        return web.Response(body=body, content_type="application/json")

    async def fail(self, error: ApiError) -> web.StreamResponse:
        raise error
