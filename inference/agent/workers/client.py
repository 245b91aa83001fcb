"""The agent's calls to the workers of its own node. Each has a short deadline; none is ever retried here."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import TypeVar

import aiohttp

from inference.contracts import names
from inference.contracts.auth import PURPOSE_WORKER_HTTP, bearer
from inference.contracts.codec import CodecError, decode, encode
from inference.contracts.errors import ErrorCode
from inference.contracts.generation import WorkerError
from inference.contracts.reports import Address
from inference.contracts.timings import Window
from inference.contracts.worker import RoleOrder, WindowBatch, WorkerStatus
from inference.process.tls import tls_refusal

T = TypeVar("T")


class NoAnswer(Exception):
    """The worker did not give a usable answer in time; the text says what came instead."""


class SwitchRefused(Exception):
    """The worker stays what it was; the text says why."""


class WorkerClient:
    """Used within one event loop, as an async context manager.

    tls: how workers are called; None: in clear. named: what their certificate names, when that is not what is dialled:
    a node's workers bear the address that others reach it by.
    """

    def __init__(
        self, cluster_secret: str, timeout_s: float, *, tls: ssl.SSLContext | None = None, named: str | None = None
    ) -> None:
        self._tls = tls
        self._named = named if tls is not None else None
        self._headers = {"Authorization": bearer(cluster_secret, PURPOSE_WORKER_HTTP)}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> WorkerClient:
        # A fresh connection per call: a worker that is restarted on the same port never gets an old connection's call.
        connector = aiohttp.TCPConnector(limit=0, force_close=True, ssl=self._tls or True)
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

    async def switch(self, worker: Address, order: RoleOrder, timeout_s: float) -> WorkerStatus:
        """Have the worker change its role; what it is then.

        Raises:
            SwitchRefused: it stays what it was. Any other trouble is `NoAnswer`: the order may be repeated.
        """
        body = await self._call("POST", worker, names.WORKER_ROLE, encode(order), timeout_s)
        return _read(body, WorkerStatus)

    async def _call(
        self, method: str, worker: Address, path: str, body: bytes | None = None, timeout_s: float | None = None
    ) -> bytes:
        if self._session is None:
            raise RuntimeError("WorkerClient is used outside of its async context")
        url = f"{'http' if self._tls is None else 'https'}://{worker.host}:{worker.port}{path}"
        try:
            timeout = self._timeout if timeout_s is None else aiohttp.ClientTimeout(total=timeout_s)
            async with self._session.request(
                method, url, data=body, timeout=timeout, allow_redirects=False, server_hostname=self._named
            ) as answer:
                text = await answer.read()
                if answer.status >= 300:
                    raise _refusal(f"{method} {path}", answer.status, text)
                return text
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswer(f"{method} {path}: {tls_refusal(error) or error or type(error).__name__}") from error


def _refusal(call: str, status: int, body: bytes) -> Exception:
    try:
        said = decode(body, WorkerError)
    except CodecError:
        return NoAnswer(f"{call} was answered with {status}")
    if said.code == ErrorCode.SWITCH_REFUSED:
        return SwitchRefused(said.message)
    return NoAnswer(f"{call} was answered with {status}: {said.message}")


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return decode(body, kind)
    except CodecError as error:
        raise NoAnswer(str(error)) from error
