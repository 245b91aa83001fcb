"""Connections to workers, kept for the next call."""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict

from inference.contracts.reports import Address
from inference.router.turns import Turns
from inference.router.workers.connection import Connection

#: Longer than this no connection is kept idle: before the worker, which closes it after a minute, or something between
#: the two that forgets it, makes a call fail.
IDLE_S = 15.0


class Pool:
    """tls: how workers are called; None: in clear."""

    def __init__(self, tls: ssl.SSLContext | None, turns: Turns) -> None:
        self._tls = tls
        self._open: set[Connection] = set()
        self._idle: defaultdict[Address, list[tuple[float, Connection]]] = defaultdict(list)
        self._turns = turns
        self._sweep: asyncio.TimerHandle | None = None

    def idle(self, address: Address) -> Connection | None:
        """A connection that is free, the last used first; None: there is none."""
        kept = self._idle.get(address)
        oldest = asyncio.get_running_loop().time() - IDLE_S
        while kept:
            since, connection = kept.pop()
            if connection.open and since > oldest:
                return connection
            connection.abort()
        return None

    async def connect(self, address: Address) -> Connection:
        """A new connection.

        Raises:
            OSError: there is none to be had; `ssl.SSLError` where that is because of TLS.
        """
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(lambda freed: self._keep(address, freed), self._open.discard, self._turns),
            address.host,
            address.port,
            ssl=self._tls,
        )
        if connection.open:  # it may have been lost already, and told so
            self._open.add(connection)
        return connection

    def close(self) -> None:
        """Close all connections, with whatever they are doing."""
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

    def _keep(self, address: Address, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        self._idle[address].append((loop.time(), connection))
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_S, self._close_old)

    def _close_old(self) -> None:
        """Also of workers that nobody calls any more. The oldest come first."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_S
        for address, kept in list(self._idle.items()):
            while kept and (kept[0][0] <= oldest or not kept[0][1].open):
                kept.pop(0)[1].abort()
            if not kept:
                del self._idle[address]
        self._sweep = loop.call_later(IDLE_S, self._close_old) if self._idle else None
