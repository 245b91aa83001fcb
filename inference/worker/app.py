"""The worker's HTTP surface: who may call, how refusals look, how streams are written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from inference.contracts import names
from inference.contracts.auth import PURPOSE_METRICS, PURPOSE_WORKER_HTTP, is_bearer
from inference.contracts.codec import CodecError, decode, encode
from inference.contracts.embeddings import EmbedRequest
from inference.contracts.errors import ErrorCode, TandemError, http_status
from inference.contracts.generation import (
    DetokenizeRequest,
    GenerateRequest,
    PrefillRequest,
    ReserveRequest,
    StreamEvent,
    TokenizeRequest,
    WorkerError,
)
from inference.contracts.worker import PreflightOrder, RoleOrder
from inference.worker.worker import Worker

log = structlog.get_logger()

T = TypeVar("T")


def make_app(worker: Worker, secret: str) -> web.Application:
    """All routes of one worker; every call but the liveness probe needs this cluster's bearer."""
    app = web.Application(
        client_max_size=worker.state.limits.max_body_bytes,
        middlewares=[_typed_errors, _authenticated(secret)],
    )
    calls = _Calls(worker)
    app.add_routes(
        [
            web.post(names.WORKER_RESERVE, calls.reserve),
            web.post(names.WORKER_PREFILL, calls.prefill),
            web.post(names.WORKER_GENERATE, calls.generate),
            web.post(names.WORKER_TOKENIZE, calls.tokenize),
            web.post(names.WORKER_DETOKENIZE, calls.detokenize),
            web.post(names.WORKER_EMBED, calls.embed),
            web.delete(names.WORKER_TICKETS + "/{ticket_id}", calls.release),
            web.get(names.WORKER_STATUS, calls.status),
            web.post(names.WORKER_DRAIN, calls.drain),
            web.post(names.WORKER_UNDRAIN, calls.undrain),
            web.post(names.WORKER_ROLE, calls.role),
            web.post(names.WORKER_PREFLIGHT, calls.preflight),
            web.get(names.WORKER_WINDOWS, calls.windows),
            web.get(names.HEALTH_LIVE, calls.live),
            web.get(names.HEALTH_READY, calls.ready),
            web.get(names.METRICS, calls.metrics),
        ]
    )
    return app


class _Calls:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def reserve(self, request: web.Request) -> web.StreamResponse:
        order = await _read(request, ReserveRequest)
        with structlog.contextvars.bound_contextvars(request_id=order.request_id):
            return _json(await self._worker.duties.answers.reserve(order))

    async def prefill(self, request: web.Request) -> web.StreamResponse:
        order = await _read(request, PrefillRequest)
        with structlog.contextvars.bound_contextvars(request_id=order.request_id):
            async with self._worker.duties.prefills.admitted(order) as events:
                return await self._stream(request, events)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        order = await _read(request, GenerateRequest)
        with structlog.contextvars.bound_contextvars(request_id=order.request_id):
            async with self._worker.duties.answers.answering(order) as events:
                return await self._stream(request, events)

    async def tokenize(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._worker.tokens.tokenize(await _read(request, TokenizeRequest)))

    async def detokenize(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._worker.tokens.detokenize(await _read(request, DetokenizeRequest)))

    async def embed(self, request: web.Request) -> web.StreamResponse:
        order = await _read(request, EmbedRequest)
        with structlog.contextvars.bound_contextvars(request_id=order.request_id):
            return _json(await self._worker.duties.embeddings.embed(order))

    async def release(self, request: web.Request) -> web.StreamResponse:
        self._worker.duties.answers.release(request.match_info["ticket_id"])
        return web.Response(status=204)

    async def status(self, request: web.Request) -> web.StreamResponse:
        return _json(self._worker.status())

    async def drain(self, request: web.Request) -> web.StreamResponse:
        self._worker.state.draining = True
        return _json(self._worker.status())

    async def undrain(self, request: web.Request) -> web.StreamResponse:
        self._worker.state.draining = False
        return _json(self._worker.status())

    async def role(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._worker.switch(await _read(request, RoleOrder)))

    async def preflight(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._worker.duties.preflight(await _read(request, PreflightOrder)))

    async def windows(self, request: web.Request) -> web.StreamResponse:
        return _json(self._worker.recorder.take())

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Whether the process is worth keeping: 503 once its engine is stuck or could not start."""
        return web.Response(status=200 if self._worker.state.healthy else 503)

    async def ready(self, request: web.Request) -> web.StreamResponse:
        """Whether new requests are taken; else 503 and why."""
        self._worker.state.check_open()
        return web.Response(status=200)

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        body, content_type = self._worker.duties.metrics.render()
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _stream(self, request: web.Request, events: AsyncIterator[StreamEvent]) -> web.StreamResponse:
        """One line of JSON per event, each sent at once."""
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        write_s = self._worker.state.limits.write_s
        try:
            async for event in events:
                async with asyncio.timeout(write_s):
                    await response.write(encode(event) + b"\n")
            async with asyncio.timeout(write_s):
                await response.write_eof()
        except TimeoutError:
            log.warning("the caller takes no more events, its stream is cut", path=request.path)
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # the caller left: leaving this frees what it held
        return response


def _authenticated(secret: str) -> Middleware:
    purposes = {names.METRICS: (PURPOSE_METRICS, PURPOSE_WORKER_HTTP)}

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path != names.HEALTH_LIVE:
            given = request.headers.get("Authorization")
            accepted = purposes.get(request.path, (PURPOSE_WORKER_HTTP,))
            if not any(is_bearer(given, secret, purpose) for purpose in accepted):
                # As it came, still encoded: a path with a line break in it must not make lines of its own.
                log.warning(
                    "call refused: no bearer", peer=request.remote, call=request.method, path=request.raw_path[:200]
                )
                raise TandemError(ErrorCode.UNAUTHENTICATED, "this call needs the cluster's bearer token")
        return await handler(request)

    return check


@web.middleware
async def _typed_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every refusal is a `WorkerError`, also the framework's own."""
    try:
        return await handler(request)
    except TandemError as error:
        return _refusal(error, http_status(error.code))
    except CodecError as error:  # no client writes to workers: router and worker differ in their versions
        return _refusal(TandemError(ErrorCode.UNREADABLE, str(error)), 400)
    except web.HTTPException as error:
        return _refusal(TandemError(ErrorCode.UNREADABLE, error.reason), error.status)
    except (ConnectionError, TimeoutError):
        raise
    except Exception as error:
        log.exception("worker call failed", path=request.path)
        return _refusal(TandemError(ErrorCode.ENGINE_FAILED, f"{type(error).__name__}: {error}"), 500)


def _refusal(error: TandemError, status: int) -> web.Response:
    return _json(WorkerError(code=error.code, message=error.message, param=error.param), status)


def _json(message: object, status: int = 200) -> web.Response:
    return web.Response(body=encode(message), status=status, content_type="application/json")


async def _read(request: web.Request, kind: type[T]) -> T:
    return decode(await request.read(), kind)
