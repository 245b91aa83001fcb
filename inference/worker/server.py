"""Binds a worker's ports and ends its calls; the same for a process of its own and for a test's event loop."""

from __future__ import annotations

from aiohttp import web

from inference.contracts.reports import Address
from inference.contracts.specs import WorkerSpec
from inference.engine.interface import Engine
from inference.process.tls import NodeTls
from inference.worker.app import make_app
from inference.worker.limits import WorkerLimits
from inference.worker.tls_front import TlsFront
from inference.worker.worker import Worker

_LAST_LINES_S = 1.0


class WorkerServer:
    """A worker with open ports. `http` is where it is called, known after `listen`. tls: None: all in clear."""

    def __init__(
        self, spec: WorkerSpec, engine: Engine, secret: str, limits: WorkerLimits, tls: NodeTls | None = None
    ) -> None:
        self.worker = Worker(spec, engine, secret, limits, tls)
        self._tls = tls
        self._front: TlsFront | None = None
        self.runner = web.AppRunner(
            make_app(self.worker, secret),
            handler_cancellation=True,
            shutdown_timeout=_LAST_LINES_S,
            access_log=None,
        )
        self.http: Address | None = None

    async def listen(self, host: str = "127.0.0.1", advertised: str | None = None) -> Address:
        """Bind free ports of `host` (F40: the child binds, nobody else guesses); peers are told `advertised`."""
        await self.runner.setup()
        port = await self._listen_for_calls(host)
        await self.worker.listen(host, advertised or host)
        self.http = Address(host=advertised or host, port=port)
        return self.http

    async def _listen_for_calls(self, host: str) -> int:
        if self._tls is None:
            await web.TCPSite(self.runner, host, 0).start()
            return int(self.runner.addresses[0][1])
        assert self.runner.server is not None  # noqa: S101 - set up
        self._front = TlsFront(self.runner.server, self._tls.server)
        return await self._front.listen(host)

    async def load(self) -> bool:
        """See `Worker.load`."""
        return await self.worker.load()

    async def stop(self) -> None:
        """Take no more calls, let open streams say why they end, and close everything."""
        await self.worker.stop()
        if self._front is not None:
            await self._front.close()
        await self.runner.cleanup()
        await self.worker.close()
