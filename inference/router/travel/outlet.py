"""Where answers go on their way to the client: into a stream of events, or into one JSON answer.

A request has one outlet. Each of its prompts has a lane to it: the choices that are the answers to that prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from aiohttp import web

from inference.contracts import codec
from inference.contracts.generation import Finished, TokenDelta
from inference.contracts.states import FinishReason
from inference.contracts.timings import RequestTiming
from inference.contracts.tools import ToolFormat
from inference.router.errors import ApiError
from inference.router.openai.answer import Choice, Shape, usage_of
from inference.router.openai.tool_calls.reader import CallDelta, CallReader
from inference.router.openai.tools import ToolUse
from inference.router.web.sse import AFTER_DATA, BEFORE_DATA, DONE, EventWriter, event

_as_json = msgspec.json.Encoder().encode


class Outlet(Protocol):
    @property
    def begun(self) -> bool:
        """Whether the client has received anything: then a failure has no status of its own any more."""

    def forget(self, index: int) -> bool:
        """Forget what choice `index` has so far, since it is begun anew; False when the client has some of it."""

    def send(self, index: int, delta: TokenDelta) -> None:
        """More of choice `index`."""

    def call(self, index: int, delta: CallDelta) -> None:
        """More of a call that choice `index` makes."""

    async def flush(self) -> None:
        """Let the client have what was sent. Raises `ClientGone`."""

    def flows(self) -> bool:
        """Whether the client could take a little more at once."""

    def pass_on(self) -> None:
        """`flush` without waiting: only while it flows, and for little. Raises `ClientGone`."""

    async def finish(self, finished: Sequence[Finished], timings: Sequence[RequestTiming]) -> web.StreamResponse:
        """All choices are whole. finished: one for each prompt. timings: the same, or none where not asked for."""

    async def fail(self, error: ApiError) -> web.StreamResponse:
        """Tell the client in the stream where that has begun, else raise `error` for an answer with its status."""


class Lane:
    """The answers to one prompt, as choices `first` and on of `outlet`. tools: what they may call."""

    __slots__ = (
        "_echo",
        "_indices",
        "_open",
        "_outlet",
        "_readers",
        "_sent",
        "_to_echo",
        "_tools",
        "flows",
        "pass_on",
    )

    def __init__(self, outlet: Outlet, first: int, answers: int, tools: ToolUse | None = None) -> None:
        self._outlet = outlet
        self.flows, self.pass_on = outlet.flows, outlet.pass_on
        self._tools = tools
        self._readers: dict[int, CallReader] = {}
        self._indices = range(first, first + answers)
        self._sent = False
        self._echo = ""
        self._open: set[int] = set(self._indices)
        self._to_echo: set[int] = set()

    @property
    def begun(self) -> bool:
        """Whether the client has received any of these answers: then they can't be begun anew."""
        return self._sent and self._outlet.begun

    def restart(self) -> None:
        """Forget the answers so far: they are begun anew."""
        if not all(self._outlet.forget(index) for index in self._indices):
            raise RuntimeError("the client has text of this answer: it can't be begun anew")
        self._open = set(self._indices)
        self._to_echo = set()
        self._readers = {}

    def read_calls(self, format: ToolFormat) -> None:
        """Where tools may be called, tell calls in `format` from text."""
        if self._tools is not None:
            self._readers = {index: CallReader(format, several=self._tools.several) for index in self._indices}

    def echo(self, text: str) -> None:
        """Begin every answer with `text`."""
        self._echo = text
        self._to_echo = set(self._indices)

    def send(self, deltas: Sequence[TokenDelta]) -> None:
        """More of the answers. It may stay here until `flush`."""
        for delta in deltas:
            if not (delta.text or delta.logprobs or delta.finish is not None):
                continue
            if delta.answer >= len(self._indices):
                continue  # not asked for: no client could place it
            index = self._indices[delta.answer]
            if self._to_echo or self._readers or delta.finish is not None:
                self._send(index, delta)
            else:
                self._outlet.send(index, delta)
                self._sent = True

    async def flush(self) -> None:
        """Let the client have what was sent. Raises `ClientGone`."""
        await self._outlet.flush()

    def close(self, reason: FinishReason) -> None:
        """Every answer is whole; `reason` holds for those of which no end was told (by a worker of release 0.1)."""
        for index in sorted(self._open):
            self._send(index, TokenDelta(token_ids=(), text="", finish=reason))

    def _send(self, index: int, delta: TokenDelta) -> None:
        if index in self._to_echo:
            self._to_echo.discard(index)
            self._outlet.send(index, TokenDelta(token_ids=(), text=self._echo))
        if delta.finish is not None:
            self._open.discard(index)
        if index in self._readers:
            self._send_read(index, delta, self._readers[index])
        else:
            self._outlet.send(index, delta)
        self._sent = True

    def _send_read(self, index: int, delta: TokenDelta, reader: CallReader) -> None:
        pieces, finish = reader.feed(delta.text), delta.finish
        if finish is not None:
            pieces += reader.flush()
            if finish is FinishReason.STOP and reader.called:
                finish = FinishReason.TOOL_CALLS
        if delta.logprobs:
            self._outlet.send(index, TokenDelta(token_ids=(), text="", logprobs=delta.logprobs))
        for piece in pieces:
            if isinstance(piece, CallDelta):
                self._outlet.call(index, piece)
            else:
                self._outlet.send(index, TokenDelta(token_ids=(), text=piece))
        if finish is not None:
            self._outlet.send(index, TokenDelta(token_ids=(), text="", finish=finish))


class StreamOutlet:
    """Sends each piece of text as it comes; what came at once, at once."""

    __slots__ = (
        "_frames",
        "_include_usage",
        "_opened",
        "_shape",
        "_unsent",
        "_writer",
        "flows",
    )

    def __init__(self, shape: Shape, writer: EventWriter, include_usage: bool) -> None:
        self._shape = shape
        self._writer = writer
        self._include_usage = include_usage
        self._opened: set[int] = set()
        self._frames: dict[int, tuple[bytes, bytes]] = {}
        self._unsent: list[bytes] = []
        self.flows = writer.flows

    @property
    def begun(self) -> bool:
        return self._writer.begun

    def forget(self, index: int) -> bool:
        return index not in self._opened

    def send(self, index: int, delta: TokenDelta) -> None:
        if index not in self._opened:
            self._open(index)
        if delta.logprobs:
            self._unsent.append(event(self._shape.text(index, delta.text, delta.logprobs)))
        elif delta.text:
            before, after = self._frames.get(index) or self._frame(index)
            self._unsent += before, _as_json(delta.text), after
        if delta.finish is not None:
            self._unsent.append(event(self._shape.closing(index, delta.finish)))

    def call(self, index: int, delta: CallDelta) -> None:
        if index not in self._opened:
            self._open(index)
        self._unsent.append(event(self._shape.call(index, delta)))

    async def flush(self) -> None:
        if self._unsent:
            events = b"".join(self._unsent)
            self._unsent.clear()
            await self._writer.write(events)

    def pass_on(self) -> None:
        if self._unsent:
            events = b"".join(self._unsent)
            self._unsent.clear()
            self._writer.write_at_once(events)

    def _open(self, index: int) -> None:
        """What goes before the first of choice `index`. Choices are opened in order, since the streaming helper of
        OpenAI's client takes the first that it sees for the first."""
        for choice in range(index + 1):
            opening = None if choice in self._opened else self._shape.opening(choice)
            if opening is not None:
                self._opened.add(choice)
                self._unsent.append(event(opening))
        self._opened.add(index)

    def _frame(self, index: int) -> tuple[bytes, bytes]:
        """What is before and after a text of choice `index`, made once."""
        before, after = self._shape.frame(index)
        frame = self._frames[index] = BEFORE_DATA + before, after + AFTER_DATA
        return frame

    async def finish(self, finished: Sequence[Finished], timings: Sequence[RequestTiming]) -> web.StreamResponse:
        if self._include_usage:
            self._unsent.append(event(self._shape.usage(usage_of(finished))))
        self._unsent += (event(codec.encode(timing), "timings") for timing in timings)
        return await self._end(DONE)

    async def fail(self, error: ApiError) -> web.StreamResponse:
        """No [DONE]: a broken answer must not look complete."""
        if not self._writer.begun:
            raise error
        return await self._end(event(codec.encode(error.body)))

    async def _end(self, last: bytes) -> web.StreamResponse:
        events = b"".join((*self._unsent, last))
        self._unsent.clear()
        return await self._writer.end(events)


class WholeOutlet:
    """Collects `choices` choices for one answer."""

    def __init__(self, shape: Shape, choices: int) -> None:
        self._shape = shape
        self._choices = [Choice() for _ in range(choices)]

    @property
    def begun(self) -> bool:
        return False

    def forget(self, index: int) -> bool:
        self._choices[index] = Choice()
        return True

    def send(self, index: int, delta: TokenDelta) -> None:
        choice = self._choices[index]
        choice.texts.append(delta.text)
        choice.logprobs += delta.logprobs
        choice.finish = delta.finish

    def call(self, index: int, delta: CallDelta) -> None:
        self._choices[index].add(delta)

    async def flush(self) -> None:
        """It is all there when it is whole."""

    def flows(self) -> bool:
        return True

    def pass_on(self) -> None:
        """See `flush`."""

    async def finish(self, finished: Sequence[Finished], timings: Sequence[RequestTiming]) -> web.StreamResponse:
        """The stage times of a request are part of its answer where it had one prompt."""
        timing = timings[0] if len(timings) == 1 else None
        body = self._shape.whole(self._choices, usage_of(finished), timing)
        return web.Response(body=body, content_type="application/json")

    async def fail(self, error: ApiError) -> web.StreamResponse:
        raise error
