"""A proxy that passes bytes on and does nothing else, by the router's stack (uvloop, httptools).

python -m tests.bench.router.bare_proxy PORT TO

What the work would cost at the least: against it the budget of the router is set. TO: ports of workers, with commas.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys

import httptools
import uvloop

_END = b"\r\n0\r\n\r\n"


class Upstream(asyncio.Protocol):
    """A connection to a worker. client: whose answer it reads; None: it is free."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.client: Client | None = None
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        client = self.client
        if client is None:
            return
        client.transport.write(data)
        self._tail = (self._tail + data)[-len(_END) :]
        if self._tail == _END:
            self.client, self._tail = None, b""
            client.proxy.free.append(self)


class Client(asyncio.Protocol):
    """A connection of a client; its requests are read whole by httptools and then sent on as they came."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._request: list[bytes] = []
        self._whole = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._request.append(data)
        self._parser.feed_data(data)
        if self._whole:
            self._whole, request = False, b"".join(self._request)
            self._request.clear()
            asyncio.get_running_loop().create_task(self.proxy.pass_on(request, self))

    def on_message_complete(self) -> None:
        self._whole = True


class Proxy:
    def __init__(self, ports: list[int]) -> None:
        self._ports = itertools.cycle(ports)
        self.free: list[Upstream] = []

    async def pass_on(self, request: bytes, client: Client) -> None:
        upstream = self.free.pop() if self.free else await self._connect()
        upstream.client = client
        upstream.transport.write(request)

    async def _connect(self) -> Upstream:
        _, upstream = await asyncio.get_running_loop().create_connection(Upstream, "127.0.0.1", next(self._ports))
        return upstream


async def _serve(port: int, ports: list[int]) -> None:
    proxy, stop = Proxy(ports), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    async with await loop.create_server(lambda: Client(proxy), "127.0.0.1", port):
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), [int(port) for port in sys.argv[2].split(",")]))
