"""The agent's calls to the workers of its own node. Each has a short deadline; none is ever retried here."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

import aiohttp

from inference.contracts import names
from inference.contracts.auth import PURPOSE_WORKER_HTTP, bearer
from inference.contracts.codec import CodecError, decode
from inference.contracts.reports import Address
from inference.contracts.timings import Window
from inference.contracts.worker import WindowBatch, WorkerStatus

T = TypeVar("T")


class NoAnswer(Exception):
    """The worker did not give a usable answer in time; the text says what came instead."""


class WorkerClient:
    """Used within one event loop, as an async context manager."""

    def __init__(self, cluster_secret: str, timeout_s: float) -> None:
        self._headers = {"Authorization": bearer(cluster_secret, PURPOSE_WORKER_HTTP)}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> WorkerClient:
        # A fresh connection per call: a worker that is restarted on the same port never gets an old connection's call.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self._session = aiohttp.ClientSession(headers=self._headers, timeout=self._timeout, connector=connector)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def status(self, worker: Address) -> WorkerStatus:
        return _read(await self._call("GET", worker, names.WORKER_STATUS), WorkerStatus)

    async def windows(self, worker: Address) -> tuple[Window, ...]:
        """Windows closed since the last call; their `second` counts back from now."""
        return _read(await self._call("GET", worker, names.WORKER_WINDOWS), WindowBatch).windows

    async def drain(self, worker: Address) -> None:
        await self._call("POST", worker, names.WORKER_DRAIN)

    async def undrain(self, worker: Address) -> None:
        await self._call("POST", worker, names.WORKER_UNDRAIN)

    async def _call(self, method: str, worker: Address, path: str) -> bytes:
        if self._session is None:
            raise RuntimeError("WorkerClient is used outside of its async context")
        url = f"http://{worker.host}:{worker.port}{path}"
        try:
            async with self._session.request(method, url, allow_redirects=False) as answer:
                body = await answer.read()
                if answer.status >= 300:
                    raise NoAnswer(f"{method} {path} was answered with {answer.status}")
                return body
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswer(f"{method} {path}: {error or type(error).__name__}") from error


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return decode(body, kind)
    except CodecError as error:
        raise NoAnswer(str(error)) from error
