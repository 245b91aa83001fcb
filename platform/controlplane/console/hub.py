"""Carries the console stream to all sockets of this process: one reader of Redis, however many browsers look.

The reader starts with the first socket and ends a while after the last has left, so that a browser that reconnects may
go on where it was. ASGI servers give Django no start-up or shut-down call: nothing here needs one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import redis.asyncio
import structlog
from redis.exceptions import RedisError, ResponseError

from controlplane.console.subscription import Event, Subscription
from controlplane.telemetry.stream import BEGINNING, StreamId, first_id, last_id
from inference.contracts import codec, names
from inference.contracts.console import EventMessage, TelemetryTick
from inference.contracts.frames import TelemetryFrame

log = structlog.get_logger()

#: What the charts show at most; one frame a second.
FRAMES_KEPT = 600

OUTAGE = "The control plane can't reach Redis, so changes are not seen at the moment."


@dataclass(frozen=True, slots=True)
class Limits:
    """block_s: longest blocking read; a quiet stream is looked at again after it. settle_s: how long a socket waits for
    Redis before it is served from the database alone. linger_s: how long the reader goes on without any socket.
    queue: events kept for one socket. batch: entries per read.
    """

    block_s: float = 2.0
    settle_s: float = 2.5
    first_pause_s: float = 0.5
    longest_pause_s: float = 2.0
    linger_s: float = 60.0
    queue: int = 256
    batch: int = 500


class Interrupted(Exception):
    """Entries of the stream were lost between two reads."""


class Hub:
    """position: newest event handed out. frames: telemetry of the last ten minutes up to there. outage: why the stream
    can't be followed, None while it can. epoch: grows whenever events may have been missed.
    """

    def __init__(self, open_client: Callable[[], redis.asyncio.Redis], limits: Limits) -> None:
        self._open_client = open_client
        self._limits = limits
        self._subscriptions: set[Subscription] = set()
        self._users = 0
        self._reader: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._ending: asyncio.TimerHandle | None = None
        self._followed_since = BEGINNING
        self.position = BEGINNING
        self.frames: deque[TelemetryFrame] = deque(maxlen=FRAMES_KEPT)
        self.outage: str | None = None
        self.epoch = 0

    @asynccontextmanager
    async def subscribe(self, after: StreamId | None = None) -> AsyncIterator[Subscription]:
        """Events from now on, or from `after` on if none of them can have been missed; else first of all a `Resync`."""
        self._users += 1
        try:
            await self._ensure_reader()
            subscription = Subscription(self._limits.queue)
            # From here on nothing is missed; only then may the state be read of which a snapshot is made.
            self._subscriptions.add(subscription)
            try:
                if after is None or not await self._resume(subscription, after):
                    subscription.resync()
                yield subscription
            finally:
                self._subscriptions.discard(subscription)
        finally:
            self._users -= 1
            if self._users == 0:
                loop = asyncio.get_running_loop()
                self._ending = loop.call_later(self._limits.linger_s, self.end)

    def end(self) -> None:
        """Stop reading. The next socket starts it again."""
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
            self._settled = asyncio.Event()

    async def _ensure_reader(self) -> None:
        """Returns once it is known whether Redis can be read."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read_through_outages(), name="console-hub")
        try:
            await asyncio.wait_for(self._settled.wait(), self._limits.settle_s)
        except TimeoutError:
            self._interrupt(OUTAGE)

    async def _read_through_outages(self) -> None:
        pause = self._limits.first_pause_s
        while True:
            try:
                async with aclosing(self._open_client()) as client:
                    await self._begin(client)
                    pause = self._limits.first_pause_s
                    await self._follow(client)
            except Interrupted as error:
                log.warning("console stream interrupted; consoles get a snapshot", reason=str(error))
                continue
            except (RedisError, OSError, TimeoutError) as error:
                if self.outage is None:
                    log.warning("console stream not readable; it will be tried until it is", error=str(error))
            except Exception:
                log.exception("console hub failed; it starts again", pause_s=pause)
            self._interrupt(OUTAGE)
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._limits.longest_pause_s)

    async def _begin(self, client: redis.asyncio.Redis) -> None:
        """Start at the present end of the stream. What was sent while nobody looked may be lost: everybody resyncs."""
        async with client.pipeline(transaction=True) as pipeline:
            pipeline.xinfo_stream(names.CONSOLE_STREAM)
            pipeline.xrevrange(names.FRAME_STREAM, count=FRAMES_KEPT)
            info, entries = await pipeline.execute(raise_on_error=False)
        position = BEGINNING if _is_missing(info) else last_id(info)
        oldest = StreamId(max(0, position.ms - FRAMES_KEPT * 1000), 0)
        # No waiting from here on: position, frames and epoch change together.
        self.frames.clear()
        for raw_id, fields in reversed(entries):
            if StreamId.parse(raw_id) >= oldest:
                self._keep_frame(_read_message(raw_id, fields))
        self.position = self._followed_since = position
        self.epoch += 1
        if self.outage is not None:
            log.info("console stream readable again")
        self.outage = None
        self._settled.set()
        for subscription in self._subscriptions:
            subscription.resync()

    async def _follow(self, client: redis.asyncio.Redis) -> None:
        block_ms = int(self._limits.block_s * 1000)
        while True:
            answer: Any = await client.xread(
                {names.CONSOLE_STREAM: str(self.position)}, count=self._limits.batch, block=block_ms
            )
            entries = answer[0][1] if answer else []
            if not entries or len(entries) == self._limits.batch:
                await self._require_whole_stream(client)
            for raw_id, fields in entries:
                self._hand_out(raw_id, fields)

    async def _require_whole_stream(self, client: redis.asyncio.Redis) -> None:
        """
        Raises:
            Interrupted: the stream was trimmed beyond our position, or it is another stream than before.
        """
        info = await _stream_info(client)
        if (BEGINNING if info is None else last_id(info)) < self.position:
            raise Interrupted("positions went back: Redis has lost its data")
        first = None if info is None else first_id(info)
        if first is not None and first > self.position != BEGINNING:
            raise Interrupted("the stream was trimmed faster than it was read")

    def _hand_out(self, raw_id: bytes, fields: dict[bytes, bytes]) -> None:
        self.position = StreamId.parse(raw_id)
        message = _read_message(raw_id, fields)
        if message is not None:
            self._keep_frame(message)
            event = _event(message)
            for subscription in self._subscriptions:
                subscription.offer(event)

    def _keep_frame(self, message: EventMessage | None) -> None:
        if message is not None and isinstance(message.event, TelemetryTick):
            self.frames.append(message.event.frame)

    def _interrupt(self, reason: str) -> None:
        self._settled.set()
        if self.outage is None:
            self.outage = reason
            for subscription in self._subscriptions:
                subscription.stale(reason)

    async def _resume(self, subscription: Subscription, after: StreamId) -> bool:
        """Queue what came after `after`; False when something may be missing or it is too much for the queue."""
        if self.outage is not None or after <= self._followed_since:
            return False  # at that very position, too: events that came next may never have reached Redis
        epoch, upto = self.epoch, max(self.position, after)
        try:
            async with aclosing(self._open_client()) as client:
                entries: Any = await client.xrange(
                    names.CONSOLE_STREAM, min=str(after), max=str(upto), count=self._limits.queue + 1
                )
        except (RedisError, OSError, TimeoutError):
            return False
        ids = [StreamId.parse(raw_id) for raw_id, _ in entries]
        if not ids or ids[0] != after or len(ids) > self._limits.queue or epoch != self.epoch:
            return False
        messages = (_read_message(raw_id, fields) for raw_id, fields in entries[1:])
        subscription.starts_after(after)
        subscription.replay(_event(message) for message in messages if message is not None)
        return True


def _read_message(raw_id: bytes, fields: dict[bytes, bytes]) -> EventMessage | None:
    """The event of one stream entry; None, with a log line, when it can't be read."""
    try:
        wire = b'{"type":"event","seq":"%b","event":%b}' % (raw_id, fields[names.STREAM_FIELD.encode()])
        return codec.decode(wire, EventMessage)
    except (KeyError, codec.CodecError) as error:
        log.warning("console event passed over", position=raw_id.decode(), error=str(error))
        return None


def _event(message: EventMessage) -> Event:
    return Event(StreamId.parse(message.seq), codec.encode_text(message))


def _is_missing(info: Any) -> bool:
    """Whether this answer says that there is no such stream.

    Raises:
        RedisError: it says something else that is no answer.
    """
    if isinstance(info, Exception) and not isinstance(info, ResponseError):
        raise info
    return isinstance(info, ResponseError)


async def _stream_info(client: redis.asyncio.Redis) -> dict[str, Any] | None:
    try:
        info: Any = await client.xinfo_stream(names.CONSOLE_STREAM)
    except ResponseError:  # no such key
        return None
    return dict(info)
