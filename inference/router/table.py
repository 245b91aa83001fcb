"""The routing table and the serving keys, kept current by one task; serving only ever reads the last good ones.

Redis carries both. They are read at the start, whenever the channel says "look again", and looked at twice a second in
case that announcement is lost: of a table that is as it was only its beginning travels, so that costs little. While
Redis is away the last good ones stay in use, without limit; a file keeps them for a router that starts meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from inference.contracts import codec, names
from inference.contracts.routing import DeploymentRoute, KeyTable, RoutingTable
from inference.router.admission.keys import Keyring
from inference.router.choosing.roster import Roster, roster_of
from inference.router.choosing.standing import WorkerKey, key_of
from inference.router.table_file import Cached, TableFile

#: A table begins with its version, which is another for each that is published.
BEGINNING_BYTES = 64

_FIRST_PAUSE_S = 0.1
_log = structlog.get_logger()

T = TypeVar("T", RoutingTable, KeyTable)

#: What tells one published table from another: its beginning, and its length in bytes.
_Mark = tuple[bytes | str, int]
_NOTHING: _Mark = (b"", 0)


@dataclass(frozen=True, slots=True)
class Named:
    """What the tables in use name. workers: of all deployments. keys: their ids."""

    deployments: frozenset[str] = frozenset()
    workers: frozenset[WorkerKey] = frozenset()
    keys: frozenset[str] = frozenset()


class _Slot(Generic[T]):
    """The last good table of one kind. `version` only grows, but for a value from the file, which any published one
    replaces: the control plane may have begun anew since. mark: of what Redis held when it was read."""

    def __init__(self, name: str, kind: type[T]) -> None:
        self.name = name
        self._kind: type[T] = kind
        self._published = False
        self.mark = _NOTHING
        self.value: T | None = None

    def restore(self, value: T | None) -> None:
        if self.value is None:
            self.value = value

    def offer(self, data: bytes | str | None) -> bool:
        """Take what Redis holds; whether that changed the value. Garbage and older versions are logged and ignored."""
        self.mark = _NOTHING if data is None else (data[:BEGINNING_BYTES], len(data))
        if data is None:
            return False
        try:
            table = codec.decode(data, self._kind)
        except codec.CodecError as error:
            _log.error("unreadable table ignored", table=self.name, error=str(error))
            return False
        if self.value is not None and self._published and table.version < self.value.version:
            _log.warning("older table ignored", table=self.name, version=table.version, have=self.value.version)
            return False
        self.value, self._published = table, True
        return True


class TableKeeper:
    """poll_s: seconds between looks when nobody says that something changed, and the longest pause between two attempts
    to reach a Redis that is away. changed: called with each new table, once it is in use."""

    def __init__(self, redis: Redis, data_dir: Path, poll_s: float, changed: Callable[[], None] = lambda: None) -> None:
        self._redis = redis
        self._file = TableFile(data_dir)
        self._poll_s = poll_s
        self._changed = changed
        self._routing = _Slot(names.ROUTING_TABLE_KEY, RoutingTable)
        self._keys = _Slot(names.KEY_TABLE_KEY, KeyTable)
        self._keyring: Keyring | None = None
        self._by_name: dict[str, DeploymentRoute] = {}
        self._rosters: dict[str, Roster] = {}
        self._named = Named()
        self._unwritten = asyncio.Event()
        self._connected: bool | None = None

    @property
    def routing(self) -> RoutingTable | None:
        return self._routing.value

    @property
    def keyring(self) -> Keyring | None:
        """None until a key table is known: then nobody may call."""
        return self._keyring

    @property
    def deployments(self) -> tuple[DeploymentRoute, ...]:
        return self._routing.value.deployments if self._routing.value is not None else ()

    @property
    def named(self) -> Named:
        return self._named

    def find(self, name: str) -> DeploymentRoute | None:
        """The deployment that serves `name`: its own name, or the name of its model."""
        return self._by_name.get(name)

    def roster(self, name: str) -> Roster | None:
        """The deployment of this name of its own, laid out for choosing among its workers."""
        return self._rosters.get(name)

    async def start(self) -> None:
        """First read: Redis, and the file for what Redis does not give."""
        try:
            await self._refresh()
        except (RedisError, OSError, TimeoutError) as error:
            self._note_connected(False, error)
        if self.routing is None or self._keys.value is None:
            self._restore(await asyncio.to_thread(self._file.read))
        if self._unwritten.is_set():
            await self._write()

    async def run(self) -> None:
        """Follow Redis for ever, through every outage."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                async with self._redis.pubsub(ignore_subscribe_messages=True) as changes:
                    await changes.subscribe(names.ROUTING_TABLE_CHANNEL)
                    while True:
                        await self._refresh()
                        pause = _FIRST_PAUSE_S
                        await changes.get_message(timeout=self._poll_s)
            except (RedisError, OSError, TimeoutError) as error:
                self._note_connected(False, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._poll_s)

    async def run_writer(self) -> None:
        """Keep what is new in the file, for ever. Apart from the following, so that no slow disk holds up a table."""
        while True:
            await self._unwritten.wait()
            await self._write()

    async def _write(self) -> None:
        self._unwritten.clear()
        await asyncio.to_thread(self._file.write, Cached(routing=self._routing.value, keys=self._keys.value))

    async def _refresh(self) -> None:
        slots: tuple[_Slot[RoutingTable] | _Slot[KeyTable], ...] = (self._routing, self._keys)
        marks = await self._marks()
        self._note_connected(True)
        new = [slot for slot, mark in zip(slots, marks, strict=True) if slot.mark != mark]
        if not new:
            return
        tables = await self._redis.mget([slot.name for slot in new])
        changed = [slot.offer(data) for slot, data in zip(new, tables, strict=True)]
        if any(changed):
            self._index()
            self._unwritten.set()
            self._changed()

    async def _marks(self) -> list[_Mark]:
        """Of what Redis holds now."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for slot in (self._routing, self._keys):
                pipe.getrange(slot.name, 0, BEGINNING_BYTES - 1)
                pipe.strlen(slot.name)
            told = await pipe.execute()
        return list(zip(told[::2], told[1::2], strict=True))

    def _restore(self, cached: Cached) -> None:
        self._routing.restore(cached.routing)
        self._keys.restore(cached.keys)
        self._index()

    def _index(self) -> None:
        self._by_name = {entry.model_name: entry for entry in reversed(self.deployments)}
        self._by_name.update((entry.name, entry) for entry in self.deployments)
        before = self._rosters
        self._rosters = {}
        for entry in self.deployments:
            known = before.get(entry.name)
            self._rosters[entry.name] = known if known and known.deployment == entry else roster_of(entry)
        keys = self._keys.value
        self._keyring = None if keys is None else Keyring(keys)
        self._named = Named(
            frozenset(self._rosters),
            frozenset(key_of(worker) for entry in self.deployments for worker in entry.workers),
            frozenset(() if keys is None else (entry.key_id for entry in keys.keys)),
        )

    def _note_connected(self, connected: bool, error: Exception | None = None) -> None:
        if connected != self._connected:
            self._connected = connected
            if connected:
                _log.info("Redis answers")
            else:
                _log.warning("Redis is away, serving from the last tables", error=str(error))
