"""Calls to workers: reserve, prefill, generate, release. Every failure comes out as one `TandemError`.

A `TandemError` carries what the worker said; its subclass `WorkerLost` means that the worker said nothing sensible: no
connection, a connection that broke, an answer that can't be read, a deadline that passed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import aiohttp
import msgspec
import structlog
from yarl import URL

from inference.contracts import auth, codec, names
from inference.contracts.embeddings import Embedded, EmbedRequest
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import (
    Detokenized,
    DetokenizeRequest,
    Finished,
    GenerateRequest,
    HandoffDone,
    PrefillRequest,
    ReserveRequest,
    StreamEvent,
    StreamFailed,
    Ticket,
    Tokenized,
    TokenizeRequest,
    WorkerError,
)
from inference.contracts.reports import Address
from inference.contracts.routing import WorkerRoute
from inference.contracts.worker import PairReport, PreflightOrder, WorkerStatus
from inference.process.tasks import Background
from inference.process.tls import tls_refusal
from inference.router.config import Deadlines

Question = ReserveRequest | TokenizeRequest | DetokenizeRequest | EmbedRequest
A = TypeVar("A", Ticket, Tokenized, Detokenized, Embedded)
EventStream = AsyncGenerator[StreamEvent, None]

MAX_LINE_BYTES = 1024 * 1024
_PREFLIGHT_S = 30.0
CLOSING_EVENTS = (Finished, HandoffDone, StreamFailed)

_TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, asyncio.IncompleteReadError)
_events = msgspec.json.Decoder(StreamEvent)
_log = structlog.get_logger()


class WorkerLost(TandemError):
    """The worker gave no (readable) answer. code: DEADLINE_EXCEEDED when it was only silent, else ENGINE_FAILED."""


class WorkerClient:
    """HTTP calls to workers whose addresses come from the routing table. tls: how they are called; None: in clear."""

    def __init__(
        self, cluster_secret: str, deadlines: Deadlines, background: Background, tls: ssl.SSLContext | None = None
    ) -> None:
        self._scheme = "http" if tls is None else "https"
        self._deadlines = deadlines
        self._background = background
        self._session = aiohttp.ClientSession(
            headers={"Authorization": auth.bearer(cluster_secret, auth.PURPOSE_WORKER_HTTP)},
            connector=aiohttp.TCPConnector(limit=0, ssl=tls or True),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=deadlines.connect_s),
            auto_decompress=False,
        )

    async def close(self) -> None:
        await self._session.close()

    async def reserve(self, worker: WorkerRoute, request: ReserveRequest) -> Ticket:
        """Ask for a ticket. A caller that is cancelled meanwhile leaves no reservation behind.

        Raises:
            TandemError: the worker refused. WorkerLost: it gave no answer.
        """
        asking = self._background.start(self._reserve(worker, request))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(lambda done: self._give_back(worker, done))
            raise

    def release_soon(self, worker: WorkerRoute, ticket: Ticket) -> None:
        """Give a ticket back without waiting for it; when that fails, its lease ends it."""
        self._background.start(self._release(worker, ticket))

    async def status(self, worker: WorkerRoute) -> WorkerStatus:
        """What a worker is and has to do now.

        Raises:
            TandemError: it refused. WorkerLost: it gave no answer.
        """
        try:
            async with (
                asyncio.timeout(self._deadlines.connect_s),
                self._call(worker, "GET", names.WORKER_STATUS, "", None) as response,
            ):
                return codec.decode(await response.read(), WorkerStatus)
        except TimeoutError:
            raise WorkerLost(ErrorCode.DEADLINE_EXCEEDED, f"silent for {self._deadlines.connect_s:g} s") from None
        except (*_TRANSPORT_ERRORS, codec.CodecError) as error:
            raise _lost(error) from error

    async def tokenize(self, worker: WorkerRoute, request: TokenizeRequest) -> Tokenized:
        """Raises as `reserve`."""
        return await self._ask(worker, names.WORKER_TOKENIZE, request, Tokenized)

    async def detokenize(self, worker: WorkerRoute, request: DetokenizeRequest) -> Detokenized:
        """Raises as `reserve`."""
        return await self._ask(worker, names.WORKER_DETOKENIZE, request, Detokenized)

    async def embed(self, worker: WorkerRoute, request: EmbedRequest, within_s: float) -> Embedded:
        """Raises as `reserve`."""
        return await self._ask(worker, names.WORKER_EMBED, request, Embedded, within_s)

    async def preflight(self, worker: WorkerRoute, order: PreflightOrder) -> PairReport:
        """Ask a prefill worker to try a hand-off.

        Raises:
            TandemError: the worker refused. WorkerLost: it gave no answer.
        """
        try:
            async with (
                asyncio.timeout(_PREFLIGHT_S),
                self._call(worker, "POST", names.WORKER_PREFLIGHT, "preflight", order) as response,
            ):
                return codec.decode(await response.read(), PairReport)
        except TimeoutError:
            raise WorkerLost(ErrorCode.DEADLINE_EXCEEDED, f"no answer within {_PREFLIGHT_S:g} s") from None
        except (*_TRANSPORT_ERRORS, codec.CodecError) as error:
            raise _lost(error) from error

    def prefill(self, worker: WorkerRoute, request: PrefillRequest) -> EventStream:
        return self._stream(worker, names.WORKER_PREFILL, request.request_id, request)

    def generate(self, worker: WorkerRoute, request: GenerateRequest) -> EventStream:
        return self._stream(worker, names.WORKER_GENERATE, request.request_id, request)

    async def _reserve(self, worker: WorkerRoute, request: ReserveRequest) -> Ticket:
        ticket = await self._ask(worker, names.WORKER_RESERVE, request, Ticket)
        if ticket.worker_id != worker.worker_id:
            raise WorkerLost(ErrorCode.ENGINE_FAILED, f"{worker.worker_id} was dialled and {ticket.worker_id} answered")
        return ticket

    async def _ask(
        self,
        worker: WorkerRoute,
        path: str,
        request: Question,
        kind: type[A],
        within_s: float | None = None,
    ) -> A:
        """One question, one answer. within_s: None: as a reserve call."""
        within_s = within_s or self._deadlines.reserve_s
        try:
            async with (
                asyncio.timeout(within_s),
                self._call(worker, "POST", path, request.request_id, request) as response,
            ):
                return codec.decode(await response.read(), kind)
        except TimeoutError:
            raise WorkerLost(ErrorCode.DEADLINE_EXCEEDED, f"no {kind.__name__} within {within_s:g} s") from None
        except (*_TRANSPORT_ERRORS, codec.CodecError) as error:
            raise _lost(error) from error

    def _give_back(self, worker: WorkerRoute, done: asyncio.Task[Ticket]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.release_soon(worker, done.result())

    async def _release(self, worker: WorkerRoute, ticket: Ticket) -> None:
        path = f"{names.WORKER_TICKETS}/{ticket.ticket_id}"
        try:
            async with (
                asyncio.timeout(self._deadlines.release_s),
                self._call(worker, "DELETE", path, ticket.request_id, None),
            ):
                pass
        except (TandemError, TimeoutError, *_TRANSPORT_ERRORS) as error:
            if not (isinstance(error, TandemError) and error.code is ErrorCode.TICKET_UNKNOWN):
                _log.info(
                    "ticket not released, its lease will end it",
                    request_id=ticket.request_id,
                    worker=worker.worker_id,
                    error=str(error),
                )

    async def _stream(
        self, worker: WorkerRoute, path: str, request_id: str, request: PrefillRequest | GenerateRequest
    ) -> EventStream:
        """Events up to the closing one. Has no deadline for them: who reads knows what may take how long.

        The end of the HTTP answer is awaited for a moment, so that the connection can be used again.
        """
        try:
            async with self._call(worker, "POST", path, request_id, request) as response:
                async for line in _lines(response.content):
                    event = _events.decode(line)
                    yield event
                    if isinstance(event, CLOSING_EVENTS):
                        with suppress(TimeoutError):
                            async with asyncio.timeout(self._deadlines.settle_s):
                                await response.content.readany()
                        return
                raise WorkerLost(ErrorCode.ENGINE_FAILED, "the stream ended before the answer did")
        except (*_TRANSPORT_ERRORS, msgspec.MsgspecError) as error:
            raise _lost(error) from error

    @asynccontextmanager
    async def _call(
        self, worker: WorkerRoute, method: str, path: str, request_id: str, message: msgspec.Struct | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A good answer. Redirects are refused: only addresses from the routing table are dialled."""
        headers = {"Content-Type": "application/json"}
        if request_id:
            headers[names.REQUEST_ID_HEADER] = request_id
        async with self._session.request(
            method,
            _url(self._scheme, worker.http, path),
            data=None if message is None else codec.encode(message),
            headers=headers,
            allow_redirects=False,
        ) as response:
            if not 200 <= response.status < 300:
                raise _refusal(response.status, await response.content.read(MAX_LINE_BYTES))
            yield response


def _url(scheme: str, address: Address, path: str) -> URL:
    return URL.build(scheme=scheme, host=address.host, port=address.port, path=path)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > MAX_LINE_BYTES:
            raise WorkerLost(ErrorCode.ENGINE_FAILED, f"a line of more than {MAX_LINE_BYTES} bytes")
    if rest:
        yield rest


def _refusal(status: int, body: bytes) -> TandemError:
    try:
        refused = codec.decode(body, WorkerError)
        return TandemError(ErrorCode(refused.code), refused.message, refused.param)
    except (codec.CodecError, ValueError):
        return WorkerLost(ErrorCode.ENGINE_FAILED, f"HTTP {status} without a readable reason")


def _lost(error: Exception) -> WorkerLost:
    return WorkerLost(ErrorCode.ENGINE_FAILED, tls_refusal(error) or f"{type(error).__name__}: {error}")
