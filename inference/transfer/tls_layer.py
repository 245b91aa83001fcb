"""TLS over a connected socket, for payloads too big to be copied more than once.

OpenSSL works on memory and the event loop moves the bytes, so one task may send while another receives, on any event
loop. A peer that ends the connection without saying so in TLS is one that closed it: what it sent counts only by the
frames that arrived whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import cast

#: Encrypted or decrypted at a time, and held twice meanwhile; nothing else runs on the event loop for that long.
_PIECE_BYTES = 128 * 1024


class TlsLayer:
    """`handshake`, then `send_all` and `receive_into`, each by one task at a time."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, server_hostname: str | None = None) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._came, self._goes, server_side=server_hostname is None, server_hostname=server_hostname
        )
        self._arrived = memoryview(bytearray(_PIECE_BYTES))

    async def handshake(self) -> None:
        """Raises `ssl.SSLError` when the peer does not speak TLS or shows no good certificate; it is told so."""
        while not await self._shaken():
            if not await self._more():
                raise ConnectionError("the peer closed the connection in the TLS handshake")

    async def _shaken(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            await self._flush()
            return False
        except ssl.SSLError:
            with contextlib.suppress(OSError):  # it may be gone, and why we refuse it matters more
                await self._flush()
            raise
        await self._flush()
        return True

    async def send_all(self, data: bytes | memoryview) -> None:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _PIECE_BYTES):
            self._tls.write(view[start : start + _PIECE_BYTES])
            await self._flush()

    async def receive_into(self, view: memoryview) -> int:
        """Bytes put into `view`: as many as have arrived; 0 once the peer has closed."""
        got = 0
        while got < len(view):
            try:
                count = cast(int, self._tls.read(len(view) - got, view[got:]))  # a number, with a buffer
            except ssl.SSLWantReadError:
                if got or not await self._more():
                    return got
                continue
            if count == 0:
                break
            got += count
        return got

    @property
    def holds_nothing(self) -> bool:
        """Whether no byte has arrived that nobody asked for yet."""
        return not self._came.pending and not self._tls.pending()

    async def _more(self) -> bool:
        count = await self._loop.sock_recv_into(self._sock, self._arrived)
        self._came.write(self._arrived[:count])
        return count > 0

    async def _flush(self) -> None:
        if self._goes.pending:
            await self._loop.sock_sendall(self._sock, self._goes.read())
