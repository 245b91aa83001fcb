"""What every answer has in common: a request id, and errors in OpenAI's shape."""

from __future__ import annotations

import math
import re
import uuid

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from inference.contracts import codec, names
from inference.router.admission.key_limits import Rate, Standing
from inference.router.errors import ApiError, BodyRefused, bad_request, internal_error
from inference.router.telling.metrics import Metrics
from inference.router.web.sse import ClientGone

#: How much of an address is told in an error.
_SHOWN_CHARACTERS = 200
_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}")
_REQUEST_ID = web.RequestKey("request_id", str)
_STANDING = web.RequestKey("standing", Standing)
_log = structlog.get_logger()


def request_id_of(request: web.Request) -> str:
    """The client's X-Request-Id where it is sane, else one of our own; the same for the whole request."""
    known = request.get(_REQUEST_ID)
    if known is None:
        sent = request.headers.get(names.REQUEST_ID_HEADER, "")
        known = request[_REQUEST_ID] = sent if _SANE_ID.fullmatch(sent) else f"req-{uuid.uuid4().hex}"
    return known


def ttft_deadline_of(request: web.Request) -> float | None:
    """Seconds within which the client wants its first token; None: it named none.

    Raises:
        ApiError: 400 for what is no positive number.
    """
    sent = request.headers.get(names.TTFT_DEADLINE_HEADER)
    if sent is None:
        return None
    try:
        milliseconds = float(sent)
    except ValueError:
        milliseconds = math.nan
    if not 0 < milliseconds < math.inf:
        header = names.TTFT_DEADLINE_HEADER.lower()
        raise bad_request(f"{header} is {sent[:40]!r}: a positive number of milliseconds is needed.", header)
    return milliseconds / 1000


def note_standing(request: web.Request, standing: Standing) -> None:
    """Have the answer tell how the key stands with its rates."""
    request[_STANDING] = standing


def put_headers(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Puts the request id, and how the key stands, on an answer. What software answers is nobody's business."""
    response.headers["Server"] = "tandem"
    if not isinstance(request, web.Request):
        return
    response.headers[names.REQUEST_ID_HEADER] = request_id_of(request)
    standing = request.get(_STANDING)
    if standing is not None:
        _put_rate(response, "requests", standing.requests)
        _put_rate(response, "tokens", standing.tokens)


def _put_rate(response: web.StreamResponse, of: str, rate: Rate | None) -> None:
    """As OpenAI names it."""
    if rate is not None:
        response.headers[f"x-ratelimit-limit-{of}"] = str(rate.limit)
        response.headers[f"x-ratelimit-remaining-{of}"] = str(rate.remaining)
        response.headers[f"x-ratelimit-reset-{of}"] = f"{math.ceil(rate.reset_s)}s"


async def before_headers(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Signal handler: as `put_headers`, just before the headers of an answer are sent."""
    put_headers(request, response)


def speak_openai(metrics: Metrics) -> Middleware:
    """Middleware: turns every error into an OpenAI-shaped answer that tells nothing of the inside.

    It also puts the request id on every log line of the request.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        structlog.contextvars.bind_contextvars(request_id=request_id_of(request))
        try:
            return await handler(request)
        except ApiError as error:
            return error_answer(error, metrics)
        except ClientGone:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=499, reason="Client Closed Request")  # for the record: nobody reads it
        except web.HTTPException as error:
            return error_answer(translated(request, error), metrics)
        except Exception:
            _log.exception("unexpected error", path=request.path)
            return error_answer(internal_error(), metrics)

    return middleware


def error_answer(error: ApiError, metrics: Metrics) -> web.Response:
    metrics.refusals.labels(str(error.status), error.code or "").inc()
    response = web.Response(
        status=error.status, body=codec.encode(error.body), content_type="application/json", headers=error.headers
    )
    if isinstance(error, BodyRefused):
        response.force_close()
    return response


def translated(request: web.BaseRequest, error: web.HTTPException) -> ApiError:
    """An error of aiohttp, in OpenAI's words."""
    path = (request.path or request.raw_path)[:_SHOWN_CHARACTERS]
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        text = f"{path} does not take {request.method}: it takes {allowed}."
        return ApiError(405, text, code="method_not_allowed", headers={"Allow": allowed})
    if error.status == 404:
        return ApiError(404, f"There is no {request.method} {path}.", code="unknown_url")
    if error.status == 417:
        return ApiError(417, "Of the header Expect only 100-continue is offered.", code="expectation_failed")
    return ApiError(error.status, error.reason, code="bad_request")
