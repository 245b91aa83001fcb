"""A client that costs little: it counts events in the bytes of an answer and parses nothing.

One `Caller` is one keep-alive connection, with one request at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from tests.bench.router.answers import FIRST, TOKENS

_FIRST, _TEXT, _END = b'"' + FIRST.encode() + b'"', b'"content":"', b"\r\n0\r\n\r\n"
_OVERLAP = max(len(_FIRST), len(_TEXT), len(_END)) - 1
_WITHIN_S = 60.0

#: Some 500 bytes, of which the first 256 are the same in all: a system prompt.
_SYSTEM = "You are a helpful assistant that answers in short sentences and never makes anything up. " * 3
_QUESTION = "Question {number}: please tell me what a prefill worker does, and what it hands over to whom."


class Refused(Exception):
    """An answer that is no 200, or not whole."""


@dataclass(slots=True)
class Seen:
    """One answer. Seconds from when the request was sent; tokens are events with text, as far as was read."""

    first_s: float | None = None
    whole_s: float | None = None
    tokens: int = 0


def chat_request(port: int, model: str, number: int, key: str) -> bytes:
    """A streamed chat request. number: makes its question differ from others."""
    body = json.dumps(
        {
            "model": model,
            "messages": [
                {"role": "system", "content": _SYSTEM},
                {"role": "user", "content": _QUESTION.format(number=number)},
            ],
            "max_tokens": TOKENS,
            "temperature": 0.7,
            "stream": True,
        },
        separators=(",", ":"),
    ).encode()
    return post(port, "/v1/chat/completions", body, f"Bearer {key}")


def post(port: int, path: str, body: bytes, authorization: str) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: {authorization}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Caller(asyncio.Protocol):
    """leave: close the connection at the first token."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[Seen] | None = None
        self._seen = Seen()
        self._leave = False
        self._overlap = b""
        self._length: int | None = None
        self._body: list[bytes] | None = None
        self._sent = 0.0

    @property
    def open(self) -> bool:
        return self._transport is not None

    async def connect(self, port: int) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._done is not None and not self._done.done():
            self._done.set_exception(Refused("the connection was closed before the answer was whole"))

    async def stream(self, request: bytes, *, leave: bool = False) -> Seen:
        """Send a request and read its stream. Raises `Refused`."""
        self._begin(request, leave)
        assert self._done is not None
        async with asyncio.timeout(_WITHIN_S):
            return await self._done

    async def ask(self, request: bytes) -> bytes:
        """Send a request and read its answer, which has a length. Raises `Refused`."""
        self._body = []
        await self.stream(request)
        parts, self._body = self._body, None
        return b"".join(parts).partition(b"\r\n\r\n")[2]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _begin(self, request: bytes, leave: bool) -> None:
        assert self._transport is not None
        self._done = asyncio.get_running_loop().create_future()
        self._seen = Seen()
        self._leave, self._overlap, self._length = leave, b"", -1
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        seen, done = self._seen, self._done
        if done is None or done.done():
            return
        if self._body is not None:
            self._body.append(data)
        if self._length == -1:
            self._read_head(data)
        text = self._overlap + data
        if seen.first_s is None and _FIRST in text:
            seen.first_s = time.perf_counter() - self._sent
            if self._leave:
                self.close()
                done.set_result(seen)
                return
        seen.tokens += text.count(_TEXT) - self._overlap.count(_TEXT)
        self._overlap = text[-_OVERLAP:]
        if self._length is None:
            whole = self._overlap.endswith(_END)
        else:
            self._length -= len(data)
            whole = self._length <= 0
        if whole and not done.done():
            seen.whole_s = time.perf_counter() - self._sent
            done.set_result(seen)

    def _read_head(self, data: bytes) -> None:
        """What tells where the answer ends: bytes of it that are to come, or None where it comes in chunks."""
        head, _, _ = data.partition(b"\r\n\r\n")
        if not data.startswith(b"HTTP/1.1 200"):
            assert self._done is not None
            self._done.set_exception(Refused(data[:500].decode(errors="replace")))
        length = head.lower().partition(b"\r\ncontent-length:")[2]
        self._length = len(head) + 4 + int(length.partition(b"\r\n")[0]) if length else None


class Callers:
    """Connections to one port, used again and again."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._idle: list[Caller] = []

    @contextlib.asynccontextmanager
    async def one(self) -> Iterator[Caller]:  # type: ignore[misc]
        while self._idle and not self._idle[-1].open:
            self._idle.pop()
        if self._idle:
            caller = self._idle.pop()
        else:
            caller = Caller()
            await caller.connect(self.port)
        try:
            yield caller
        except BaseException:
            caller.close()
            raise
        if caller.open:
            self._idle.append(caller)

    def close(self) -> None:
        for caller in self._idle:
            caller.close()


async def side_by_side(count: int, at_once: int, one: Callable[[int], Awaitable[None]]) -> None:
    """Do `one` for each number below `count`, so many at once."""
    numbers = iter(range(count))

    async def turn_by_turn() -> None:
        for number in numbers:
            await one(number)

    await asyncio.gather(*(turn_by_turn() for _ in range(at_once)))


async def arrivals(rate: float, seconds: float, one: Callable[[int], Awaitable[None]], rng: random.Random) -> None:
    """Do `one` at moments of a Poisson process of `rate` a second, however long each takes."""
    began = time.perf_counter()
    due, tasks = 0.0, []
    for number in itertools.count():
        due += rng.expovariate(rate)
        if due > seconds:
            break
        await asyncio.sleep(began + due - time.perf_counter())
        tasks.append(asyncio.ensure_future(one(number)))
    await asyncio.gather(*tasks)
