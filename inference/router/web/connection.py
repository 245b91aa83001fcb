"""The connection of one client: what aiohttp would refuse in words of its own is refused in OpenAI's shape."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import structlog
from aiohttp import StreamReader, http_exceptions, web
from aiohttp.web_protocol import _ErrInfo

from inference.router.config import RouterConfig
from inference.router.errors import ApiError, headers_too_large, internal_error, malformed
from inference.router.telling.metrics import Metrics
from inference.router.web.edge import error_answer, put_headers, translated

#: How long the rest of a body is read that was refused, so that the client comes to read why.
_REST_OF_BODY_S = 2.0
#: How long what still comes is thrown away after the last answer.
_LAST_WORD_S = 0.5
#: How much of what is wrong with a request is told.
_REASON_CHARACTERS = 100
_log = structlog.get_logger()


class Connection(web.RequestHandler):
    """Made for each client that connects, with the handlers of `server`."""

    __slots__ = ("_last", "_look", "_metrics", "_write_s")

    def __init__(self, server: web.Server, config: RouterConfig, metrics: Metrics) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # its own runners have it so
            keepalive_timeout=config.deadlines.keepalive_s,
            lingering_time=_REST_OF_BODY_S,
            max_line_size=config.limits.max_header_bytes,
            max_field_size=config.limits.max_header_bytes,
        )
        self._metrics = metrics
        self._last: web.StreamResponse | None = None
        self._write_s = config.deadlines.client_write_s
        self._look: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """What can't be read as HTTP is answered in its turn, after the requests before it. Where it is in the body of
        one of these, that request would wait for the rest in vain: its body is given up at once."""
        super().data_received(data)
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            body = self._messages[-2][1] if len(self._messages) > 1 else self._body_now()
            if body is not None and not body.is_eof() and body.exception() is None:
                body.set_exception(web.RequestPayloadError("its framing is not valid"))

    def _body_now(self) -> StreamReader | None:
        """Of the request that is answered now. aiohttp has no public way to it."""
        return None if self._current_request is None else self._current_request.content

    def pause_writing(self) -> None:
        """Much waits for the client to read it, and nothing is added until it has. That has an end: a whole answer has
        no other, as a stream has."""
        super().pause_writing()
        if self.transport is not None:
            self._look_later(self.transport, math.inf)

    def resume_writing(self) -> None:
        if self._look is not None:
            self._look.cancel()
        super().resume_writing()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """The last answer on this connection: to what can't be read as HTTP, or after a bug outside of all handlers."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        if isinstance(exc, http_exceptions.HttpProcessingError):
            error = _refusal(exc, self.max_field_size)
            _log.info("no HTTP", peer=request.remote, reason=error.message)
        else:
            error = internal_error()
            _log.error("unexpected error outside of a handler", exc_info=exc)
        response = error_answer(error, self._metrics)
        put_headers(request, response)
        response.force_close()
        self._last = response
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Every answer passes here."""
        if isinstance(resp, web.HTTPException):
            resp = error_answer(translated(request, resp), self._metrics)
        finished = await super().finish_response(request, resp, start_time)
        if resp is self._last or request.content.exception() is not None:
            await self._end()
        return finished

    async def _end(self) -> None:
        """Nothing that comes is read any more. To close at once would take the answer away from a client that is still
        sending: its machine is told that the connection is broken, and may forget what has come."""
        self.close()
        if self.transport is not None and self.transport.can_write_eof():
            self.transport.write_eof()
        await asyncio.sleep(_LAST_WORD_S)

    def _look_later(self, transport: asyncio.Transport, left: float) -> None:
        self._look = self._loop.call_later(self._write_s, self._require_progress, transport, left)

    def _require_progress(self, transport: asyncio.Transport, before: float) -> None:
        """Cut off a client that took nothing since the last look. before: bytes that waited for it then."""
        left = transport.get_write_buffer_size()
        if left < before:
            self._look_later(transport, left)
        else:
            transport.abort()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Of a body that can't be read its sender was told already."""
        if not isinstance(kw.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*args, **kw)


def _refusal(error: http_exceptions.HttpProcessingError, limit: int) -> ApiError:
    """Tells nothing that a client sent but a few of its characters."""
    if isinstance(error, http_exceptions.LineTooLong):
        return headers_too_large(limit)
    if isinstance(error, http_exceptions.ContentEncodingError):
        return malformed("its Content-Encoding is not offered: gzip and deflate are")
    if isinstance(error, http_exceptions.InvalidURLError):
        return malformed("its address is none")
    reason = error.message.partition("\n\n")[0].rpartition("\n")[2].strip(" :.")
    return malformed("".join(letter for letter in reason if letter.isprintable())[:_REASON_CHARACTERS])
