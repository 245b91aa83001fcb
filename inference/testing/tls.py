"""A throw-away certificate authority, and TLS in front of a server that has none: the Redis of the tests."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from inference.process.tls import CA_FILE, CERT_FILE, KEY_FILE, NodeTls, read_node_tls


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM. ca: what a client trusts that shall trust the server. Good for 127.0.0.1 and localhost."""

    ca: Path
    cert: Path
    key: Path

    @property
    def of_node(self) -> dict[str, str]:
        """The environment of a node whose workers are called over TLS."""
        return {CERT_FILE: str(self.cert), KEY_FILE: str(self.key), CA_FILE: str(self.ca)}

    def node_tls(self) -> NodeTls:
        tls = read_node_tls(self.of_node)
        assert tls is not None  # noqa: S101 - all three are set
        return tls


def make_certificates(directory: Path, *names: str) -> Certificates:
    """names: what the certificate is good for, when not for loopback."""
    import trustme  # for tests only

    authority = trustme.CA()
    server = authority.issue_cert(*(names or ("127.0.0.1", "localhost")))
    made = Certificates(directory / "ca.pem", directory / "cert.pem", directory / "key.pem")
    authority.cert_pem.write_to_path(str(made.ca))
    server.cert_chain_pems[0].write_to_path(str(made.cert))
    server.private_key_pem.write_to_path(str(made.key))
    return made


@contextlib.contextmanager
def tls_in_front_of(port: int, certificates: Certificates) -> Iterator[int]:
    """The loopback port whose TLS connections are passed on in clear to loopback `port`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.cert, certificates.key)
    front = _Front(context, port)
    thread = threading.Thread(target=front.run)
    thread.start()
    try:
        yield front.listening.result(5)
    finally:
        front.stop()
        thread.join(5)


class _Front:
    """Serves on an event loop of its own until it is stopped."""

    def __init__(self, context: ssl.SSLContext, port: int) -> None:
        self.listening: Future[int] = Future()
        self._context = context
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()

    def run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0, ssl=self._context)
        self.listening.set_result(server.sockets[0].getsockname()[1])
        await self._stop.wait()
        server.close()
        open_still = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_still:
            task.cancel()
        await asyncio.gather(*open_still, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # a client that is gone
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await asyncio.wait_for(writer.wait_closed(), 1.0)
