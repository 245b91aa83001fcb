"""The routing table and the serving keys, kept current by one task; serving only ever reads the last good ones.

Redis carries both. They are read at the start, whenever the channel says "look again", and every few seconds. While
Redis is away the last good ones stay in use, without limit; a file keeps them for a router that starts meanwhile.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from inference.contracts import codec, names
from inference.contracts.routing import DeploymentRoute, KeyTable, RoutingTable
from inference.process.files import write_atomically
from inference.router.admission.keys import Keyring
from inference.router.choosing.roster import Roster, roster_of

CACHE_FILE = "router-tables.json"
_FIRST_PAUSE_S = 0.1
_log = structlog.get_logger()

T = TypeVar("T", RoutingTable, KeyTable)


class _Cached(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the cache file."""

    routing: RoutingTable | None
    keys: KeyTable | None


class _Slot(Generic[T]):
    """The last good table of one kind. `version` only grows, but for a value from the file, which any published one
    replaces: the control plane may have begun anew since."""

    def __init__(self, name: str, kind: type[T]) -> None:
        self._name = name
        self._kind: type[T] = kind
        self._seen: bytes | str | None = None
        self._published = False
        self.value: T | None = None

    def restore(self, value: T | None) -> None:
        if self.value is None:
            self.value = value

    def offer(self, data: bytes | str | None) -> bool:
        """Take what Redis holds; whether that changed the value. Garbage and older versions are logged and ignored."""
        if data is None or data == self._seen:
            return False
        self._seen = data
        try:
            table = codec.decode(data, self._kind)
        except codec.CodecError as error:
            _log.error("unreadable table ignored", table=self._name, error=str(error))
            return False
        if self.value is not None and self._published and table.version < self.value.version:
            _log.warning("older table ignored", table=self._name, version=table.version, have=self.value.version)
            return False
        self.value, self._published = table, True
        return True


class TableKeeper:
    """poll_s: seconds between reads when nobody says that something changed, and the longest pause between two attempts
    to reach a Redis that is away."""

    def __init__(self, redis: Redis, data_dir: Path, poll_s: float) -> None:
        self._redis = redis
        self._file = data_dir / CACHE_FILE
        self._poll_s = poll_s
        self._routing = _Slot(names.ROUTING_TABLE_KEY, RoutingTable)
        self._keys = _Slot(names.KEY_TABLE_KEY, KeyTable)
        self._keyring: Keyring | None = None
        self._by_name: dict[str, DeploymentRoute] = {}
        self._rosters: dict[str, Roster] = {}
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
            self._restore(await asyncio.to_thread(self._read_file))

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

    async def _refresh(self) -> None:
        routing, keys = await self._redis.mget(names.ROUTING_TABLE_KEY, names.KEY_TABLE_KEY)
        self._note_connected(True)
        changed = self._routing.offer(routing) | self._keys.offer(keys)
        if changed:
            self._index()
            await asyncio.to_thread(self._write_file, _Cached(routing=self._routing.value, keys=self._keys.value))

    def _restore(self, cached: _Cached) -> None:
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
        self._keyring = None if self._keys.value is None else Keyring(self._keys.value)

    def _read_file(self) -> _Cached:
        try:
            return codec.decode(self._file.read_bytes(), _Cached)
        except FileNotFoundError:
            pass
        except (OSError, codec.CodecError) as error:
            _log.error("cached tables not readable", file=str(self._file), error=str(error))
        return _Cached(routing=None, keys=None)

    def _write_file(self, cached: _Cached) -> None:
        """It names keys (as digests) and addresses, so only its owner may read it."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, codec.encode(cached))
        except OSError as error:
            _log.error("tables not cached", file=str(self._file), error=str(error))

    def _note_connected(self, connected: bool, error: Exception | None = None) -> None:
        if connected != self._connected:
            self._connected = connected
            if connected:
                _log.info("Redis answers")
            else:
                _log.warning("Redis is away, serving from the last tables", error=str(error))
