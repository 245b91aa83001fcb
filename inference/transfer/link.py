"""One TCP connection that carries frames, without copying payloads more often than the kernel does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Sequence

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.process.tls import TLS_ONLY, speaks_tls, tls_refusal
from inference.transfer import wire
from inference.transfer.tls_layer import TlsLayer

_SOCKET_BUFFER_BYTES = 4 * 1024 * 1024

#: Most pieces that the kernel takes in one call (IOV_MAX).
_PIECES_PER_CALL = 1024


class LinkClosed(ConnectionError):
    """The peer ended the connection."""


class Link:
    """Frames over a connected socket. One task may send while another receives; never two of a kind.

    broken: a frame was left half sent, or TLS did not come about, so nothing more can be sent here. seed: of checksums
    over payloads here.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(wire.MAX_HEADER_BYTES))
        self._tls: TlsLayer | None = None
        self._outgoing, self._incoming = wire.Seal(), wire.Seal()
        self.seed = 0
        self.broken = False

    @classmethod
    async def connect(cls, target: Address, tls: ssl.SSLContext | None = None) -> Link:
        """tls: how to speak to `target`; None: in clear.

        Raises:
            OSError: nobody listens at `target`.
            TandemError: UNAUTHENTICATED when it does not speak TLS, or shows a certificate that is not trusted.
        """
        loop = asyncio.get_running_loop()
        family, kind, proto, _, address = (await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM))[0]
        sock = socket.socket(family, kind, proto)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
            link = cls(sock)
            if tls is not None:
                try:
                    await link._secure(TlsLayer(sock, tls, server_hostname=target.host))
                except ssl.SSLError as error:
                    raise TandemError(ErrorCode.UNAUTHENTICATED, tls_refusal(error) or str(error)) from error
            return link
        except BaseException:
            sock.close()
            raise

    async def answer_over(self, tls: ssl.SSLContext) -> None:
        """The listening side of TLS, before the first frame.

        Raises:
            TandemError: UNAUTHENTICATED when the caller does not speak TLS.
        """
        if not await speaks_tls(self._sock):
            raise TandemError(ErrorCode.UNAUTHENTICATED, TLS_ONLY)
        try:
            await self._secure(TlsLayer(self._sock, tls))
        except ssl.SSLError as error:
            raise TandemError(ErrorCode.UNAUTHENTICATED, f"no TLS with the caller: {error.reason}") from error

    async def _secure(self, layer: TlsLayer) -> None:
        self.broken = True
        await layer.handshake()
        self._tls = layer
        self.broken = False

    def seal(self, *, outgoing: bytes, incoming: bytes, checksums: bytes) -> None:
        """From the next frame on, code what is sent and check what comes with these keys."""
        self._outgoing, self._incoming = wire.Seal(outgoing), wire.Seal(incoming)
        self.seed = int.from_bytes(checksums[:8], "big")

    async def send(self, header: wire.Header, payload: Sequence[memoryview] = ()) -> None:
        """payload: in as many pieces as it lies in memory; they are read before this returns."""
        self.broken = True
        frame = wire.encode(header, sum(piece.nbytes for piece in payload), self._outgoing)
        if self._tls is not None:
            for piece in (memoryview(frame), *payload):
                await self._tls.send_all(piece)
        elif payload:
            await self._gather([memoryview(frame), *(piece.cast("B") for piece in payload)])
        else:
            await self._loop.sock_sendall(self._sock, frame)
        self.broken = False

    async def _gather(self, pieces: list[memoryview]) -> None:
        """Send `pieces` from where they are; whatever the kernel does not take at once waits until it has room."""
        first = 0
        while first < len(pieces):
            try:
                sent = self._sock.sendmsg(pieces[first : first + _PIECES_PER_CALL])
            except (BlockingIOError, InterruptedError):
                await self._writable()
                continue
            while first < len(pieces) and sent >= pieces[first].nbytes:
                sent -= pieces[first].nbytes
                first += 1
            if sent:
                pieces[first] = pieces[first][sent:]

    async def _writable(self) -> None:
        ready = asyncio.Event()
        self._loop.add_writer(self._sock.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_writer(self._sock.fileno())

    async def receive(self, max_payload: int = wire.MAX_PAYLOAD_BYTES) -> tuple[wire.Header, memoryview]:
        """The next frame; its payload is valid until the next call.

        Raises:
            LinkClosed: the peer closed the connection.
            TandemError: the bytes are no frame, damaged, of another version, or too big.
        """
        preamble = wire.decode_preamble(bytes(await self._read(wire.PREAMBLE_BYTES)), max_payload)
        header = wire.decode_header(preamble, bytes(await self._read(preamble.header_bytes)), self._incoming)
        return header, await self._read(preamble.payload_bytes)

    async def _read(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        view = self._buffer[:size]
        got = 0
        while got < size:
            count = await self._take_into(view[got:])
            if count == 0:
                raise LinkClosed("the peer closed the connection")
            got += count
        return view

    def _take_into(self, view: memoryview) -> Awaitable[int]:
        return self._loop.sock_recv_into(self._sock, view) if self._tls is None else self._tls.receive_into(view)

    async def drain(self) -> None:
        """Send no more and drop what still comes, until the peer closes. Closing with bytes unread would reset the
        connection, and the peer might never see our last frame."""
        self._sock.shutdown(socket.SHUT_WR)
        while await self._loop.sock_recv_into(self._sock, self._buffer):
            pass

    @property
    def quiet(self) -> bool:
        """Whether an idle connection is still open and nothing unasked has arrived on it."""
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return self._tls is None or self._tls.holds_nothing
        except OSError:
            return False
        return False

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.close()


def as_tandem_error(error: BaseException, what: str) -> TandemError:
    """The typed form of anything that can end a transfer; `what` says whose end failed."""
    if isinstance(error, TandemError):
        return error
    if isinstance(error, TimeoutError):
        return TandemError(ErrorCode.TRANSFER_FAILED, f"{what} did not answer in time")
    if isinstance(error, asyncio.CancelledError):
        return TandemError(ErrorCode.CANCELLED, f"the transfer with {what} was cancelled")
    return TandemError(ErrorCode.TRANSFER_FAILED, f"{what}: {error or type(error).__name__}")
