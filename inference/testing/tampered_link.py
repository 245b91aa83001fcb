"""A bad network in a box: a TCP relay that damages, cuts or stalls what passes from its callers to its target."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType

from inference.contracts.reports import Address


class TamperedLink:
    """Relays connections to `target`. Offsets count the bytes of each caller.

    flip_at: one bit of the byte there is inverted. cut_at: the connection is cut when so many bytes have passed.
    stall_at: nothing more passes from there on, and nothing is said.
    """

    def __init__(
        self,
        target: Address,
        *,
        flip_at: int | None = None,
        cut_at: int | None = None,
        stall_at: int | None = None,
    ) -> None:
        self.flip_at = flip_at
        self.cut_at = cut_at
        self.stall_at = stall_at
        self.passed = 0
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> TamperedLink:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def address(self) -> Address:
        if self._server is None:
            raise RuntimeError("the link is not open")
        return Address(host="127.0.0.1", port=self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        onward, out = await asyncio.open_connection(self._target.host, self._target.port)
        back = asyncio.create_task(_copy(onward, writer))
        try:
            await self._tamper(reader, out)
        except asyncio.CancelledError:  # asyncio logs a cancelled connection handler as a fault
            pass
        finally:
            back.cancel()
            for end in (writer, out):
                end.transport.abort()
            await asyncio.gather(back, return_exceptions=True)

    async def _tamper(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        passed = 0
        with contextlib.suppress(ConnectionError):
            while chunk := bytearray(await reader.read(4096)):
                start, passed = passed, passed + len(chunk)
                if self.flip_at is not None and start <= self.flip_at < passed:
                    chunk[self.flip_at - start] ^= 0x10
                if self.stall_at is not None and passed > self.stall_at:
                    await asyncio.Event().wait()
                if self.cut_at is not None and passed > self.cut_at:
                    out.write(chunk[: self.cut_at - start])
                    await out.drain()
                    return
                out.write(chunk)
                await out.drain()
                self.passed += len(chunk)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(4096):
            writer.write(chunk)
            await writer.drain()
