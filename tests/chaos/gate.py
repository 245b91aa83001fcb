"""A door between nodes and a server, which a test shuts for one node at a time: a network that is down.

What is sent through a shut door is neither delivered nor refused; it arrives once the door opens again, as TCP does it.
Of connections to Redis the door learns whose they are from what they log in with; before that, nothing is held up.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from functools import partial

_PIECE = 65_536


class Gate:
    """Listens on a free loopback port, in a thread of its own, and passes bytes to `target` and back."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._shut: set[str] = set()
        self._opened: asyncio.Condition
        self._loop = asyncio.new_event_loop()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._run, name="gate", daemon=True).start()

    def shut(self, who: str) -> None:
        """Hold back everything of connections in whose first bytes `who` was named."""
        asyncio.run_coroutine_threadsafe(self._change(who, shut=True), self._loop).result(5)

    def open(self, who: str) -> None:
        asyncio.run_coroutine_threadsafe(self._change(who, shut=False), self._loop).result(5)

    async def _change(self, who: str, *, shut: bool) -> None:
        (self._shut.add if shut else self._shut.discard)(who)
        async with self._opened:
            self._opened.notify_all()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._opened = asyncio.Condition()
        server = await asyncio.start_server(self._pass, sock=self._socket)
        async with server:
            await server.serve_forever()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        said = bytearray()  # how the connection began: whose it is stands there
        ways = (self._pump(reader, far_writer, said, learn=True), self._pump(far_reader, writer, said, learn=False))
        await asyncio.gather(*ways, return_exceptions=True)

    def _lets_through(self, said: bytearray) -> bool:
        return not any(who.encode() in said for who in self._shut)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, said: bytearray, *, learn: bool
    ) -> None:
        try:
            while piece := await source.read(_PIECE):
                if learn and len(said) < 1024:
                    said += piece
                async with self._opened:
                    await self._opened.wait_for(partial(self._lets_through, said))
                sink.write(piece)
                await sink.drain()
        finally:
            with contextlib.suppress(OSError):
                sink.close()
