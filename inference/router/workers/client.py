"""Calls to workers: reserve, prefill, generate, release. Every failure comes out as one `TandemError`."""

from __future__ import annotations

import asyncio
import copy
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote

import httptools
import msgspec
import structlog

from inference.contracts import auth, codec, names
from inference.contracts.embeddings import Embedded, EmbedRequest
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import (
    Detokenized,
    DetokenizeRequest,
    GenerateRequest,
    PrefillRequest,
    ReserveRequest,
    Ticket,
    Tokenized,
    TokenizeRequest,
)
from inference.contracts.reports import Address
from inference.contracts.routing import WorkerRoute
from inference.contracts.worker import PairReport, PreflightOrder, WorkerStatus
from inference.process.tasks import Background
from inference.router.config import Deadlines
from inference.router.turns import Turns
from inference.router.workers.connection import Connection
from inference.router.workers.failures import WorkerLost, lost
from inference.router.workers.pool import Pool
from inference.router.workers.question import WholeAnswer
from inference.router.workers.stream import EventStream

Question = ReserveRequest | TokenizeRequest | DetokenizeRequest | EmbedRequest
A = TypeVar("A", Ticket, Tokenized, Detokenized, Embedded, WorkerStatus, PairReport)
_PREFLIGHT_S = 30.0
_log = structlog.get_logger()


class WorkerClient:
    """HTTP calls to workers whose addresses come from the routing table. tls: how they are called; None: in clear."""

    def __init__(
        self,
        cluster_secret: str,
        deadlines: Deadlines,
        background: Background,
        turns: Turns,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._authorization = auth.bearer(cluster_secret, auth.PURPOSE_WORKER_HTTP)
        self._deadlines = deadlines
        self._background = background
        self._pool = Pool(tls, turns)

    async def close(self) -> None:
        self._pool.close()

    def within(self, deadlines: Deadlines) -> WorkerClient:
        """The same client, over the same connections, with other deadlines."""
        if deadlines is self._deadlines:
            return self
        other = copy.copy(self)
        other._deadlines = deadlines
        return other

    async def reserve(self, worker: WorkerRoute, request: ReserveRequest) -> Ticket:
        """Ask for a ticket. A caller that is cancelled meanwhile leaves no reservation behind.

        Raises:
            TandemError: the worker refused. WorkerLost: it gave no answer.
        """
        answer = WholeAnswer()
        try:
            async with _in_time(names.WORKER_RESERVE, self._deadlines.reserve_s):
                await self._send(worker, "POST", names.WORKER_RESERVE, request.request_id, request, answer)
                ticket = _decoded(await answer.whole(), Ticket)
        except asyncio.CancelledError:
            if answer.asked:
                self._background.start(self._give_back(worker, answer))
            raise
        except BaseException:
            answer.abandon()
            raise
        if ticket.worker_id != worker.worker_id:
            raise WorkerLost(ErrorCode.ENGINE_FAILED, f"{worker.worker_id} was dialled and {ticket.worker_id} answered")
        return ticket

    def release_soon(self, worker: WorkerRoute, ticket: Ticket) -> None:
        """Give a ticket back without waiting for it; when that fails, its lease ends it."""
        self._background.start(self._release(worker, ticket))

    async def status(self, worker: WorkerRoute) -> WorkerStatus:
        """What a worker is and has to do now.

        Raises:
            TandemError: it refused. WorkerLost: it gave no answer.
        """
        return await self._ask(worker, "GET", names.WORKER_STATUS, "", None, WorkerStatus, self._deadlines.connect_s)

    async def tokenize(self, worker: WorkerRoute, request: TokenizeRequest) -> Tokenized:
        """Raises as `reserve`."""
        return await self._question(worker, names.WORKER_TOKENIZE, request, Tokenized)

    async def detokenize(self, worker: WorkerRoute, request: DetokenizeRequest) -> Detokenized:
        """Raises as `reserve`."""
        return await self._question(worker, names.WORKER_DETOKENIZE, request, Detokenized)

    async def embed(self, worker: WorkerRoute, request: EmbedRequest, within_s: float) -> Embedded:
        """Raises as `reserve`."""
        return await self._question(worker, names.WORKER_EMBED, request, Embedded, within_s)

    async def preflight(self, worker: WorkerRoute, order: PreflightOrder) -> PairReport:
        """Ask a prefill worker to try a hand-off.

        Raises:
            TandemError: the worker refused. WorkerLost: it gave no answer.
        """
        return await self._ask(worker, "POST", names.WORKER_PREFLIGHT, "preflight", order, PairReport, _PREFLIGHT_S)

    def prefill(self, worker: WorkerRoute, request: PrefillRequest) -> EventStream:
        return self._stream(worker, names.WORKER_PREFILL, request.request_id, request)

    def generate(self, worker: WorkerRoute, request: GenerateRequest) -> EventStream:
        return self._stream(worker, names.WORKER_GENERATE, request.request_id, request)

    async def _question(
        self, worker: WorkerRoute, path: str, request: Question, kind: type[A], within_s: float | None = None
    ) -> A:
        """within_s: None: as long as a reserve call may take."""
        within_s = within_s or self._deadlines.reserve_s
        return await self._ask(worker, "POST", path, request.request_id, request, kind, within_s)

    async def _give_back(self, worker: WorkerRoute, answer: WholeAnswer) -> None:
        """Whoever asked for a ticket has left: it is awaited and given back."""
        try:
            async with _in_time(names.WORKER_RESERVE, self._deadlines.reserve_s):
                ticket = _decoded(await answer.whole(), Ticket)
        except TandemError:
            return  # there is none, or its lease ends it
        finally:
            answer.abandon()
        await self._release(worker, ticket)

    async def _release(self, worker: WorkerRoute, ticket: Ticket) -> None:
        path = f"{names.WORKER_TICKETS}/{quote(ticket.ticket_id, safe='')}"
        try:
            await self._call(worker, "DELETE", path, ticket.request_id, None, self._deadlines.release_s)
        except TandemError as error:
            if error.code is not ErrorCode.TICKET_UNKNOWN:
                _log.info(
                    "ticket not released, its lease will end it",
                    request_id=ticket.request_id,
                    worker=worker.worker_id,
                    error=str(error),
                )

    async def _ask(
        self,
        worker: WorkerRoute,
        method: str,
        path: str,
        request_id: str,
        message: msgspec.Struct | None,
        kind: type[A],
        within_s: float,
    ) -> A:
        """One question, one answer."""
        return _decoded(await self._call(worker, method, path, request_id, message, within_s), kind)

    async def _call(
        self,
        worker: WorkerRoute,
        method: str,
        path: str,
        request_id: str,
        message: msgspec.Struct | None,
        within_s: float,
    ) -> bytes:
        """The body of a good answer.

        Raises:
            TandemError: the worker refused. WorkerLost: it gave no answer.
        """
        answer = WholeAnswer()
        try:
            async with _in_time(path, within_s):
                await self._send(worker, method, path, request_id, message, answer)
                return await answer.whole()
        finally:
            answer.abandon()

    async def _send(
        self,
        worker: WorkerRoute,
        method: str,
        path: str,
        request_id: str,
        message: msgspec.Struct | None,
        answer: WholeAnswer,
    ) -> None:
        connection = self._pool.idle(worker.http) or await self._connect(worker.http)
        answer.ask(connection, self._request(worker.http, method, path, request_id, message))

    def _stream(
        self, worker: WorkerRoute, path: str, request_id: str, message: PrefillRequest | GenerateRequest
    ) -> EventStream:
        address = worker.http
        return EventStream(
            lambda: self._pool.idle(address),
            lambda: self._connect(address),
            self._request(address, "POST", path, request_id, message),
            self._deadlines.settle_s,
            self._background,
        )

    async def _connect(self, address: Address) -> Connection:
        """A new connection. Raises `WorkerLost`."""
        connect_s = self._deadlines.connect_s
        try:
            async with asyncio.timeout(connect_s):
                return await self._pool.connect(address)
        except TimeoutError:
            raise WorkerLost(ErrorCode.DEADLINE_EXCEEDED, f"no connection within {connect_s:g} s") from None
        except OSError as error:
            raise lost(error) from error

    def _request(
        self, address: Address, method: str, path: str, request_id: str, message: msgspec.Struct | None
    ) -> bytes:
        """A call as it is sent."""
        body = b"" if message is None else codec.encode(message)
        host = f"[{address.host}]" if ":" in address.host else address.host
        named = f"{names.REQUEST_ID_HEADER}: {request_id}\r\n" if request_id else ""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {host}:{address.port}\r\nAuthorization: {self._authorization}\r\n"
            f"Content-Type: application/json\r\n{named}Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@asynccontextmanager
async def _in_time(path: str, within_s: float) -> AsyncIterator[None]:
    """Tell what goes wrong with a call as `WorkerLost`, also that it takes too long."""
    try:
        async with asyncio.timeout(within_s):
            yield
    except TimeoutError:
        raise WorkerLost(ErrorCode.DEADLINE_EXCEEDED, f"no answer to {path} within {within_s:g} s") from None
    except (OSError, httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
        raise lost(error) from error


def _decoded(body: bytes, kind: type[A]) -> A:
    """Raises `WorkerLost`."""
    try:
        return codec.decode(body, kind)
    except codec.CodecError as error:
        raise lost(error) from error
