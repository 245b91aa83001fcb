"""What a client is told when a request is refused or fails, in the shape of OpenAI's API."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from inference.contracts.errors import ErrorCode, TandemError


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    error: ErrorDetail


class ApiError(Exception):
    """Ends a request with `status` and an OpenAI-shaped body. retry_after_s: becomes the Retry-After header. headers:
    what else the answer has."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None,
        param: str | None = None,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s
        self._headers = dict(headers or {})

    @property
    def refused(self) -> bool:
        """Told apart from a failure: it is the client's turn, or nobody is free."""
        return self.status < 500 or self.status == 503

    @property
    def body(self) -> ErrorBody:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        if self.status == 429:
            kind = "rate_limit_error"
        return ErrorBody(error=ErrorDetail(message=self.message, type=kind, param=self.param, code=self.code))

    @property
    def headers(self) -> dict[str, str]:
        advised = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        return self._headers | advised


def bad_request(message: str, param: str | None = None, code: str = "invalid_request") -> ApiError:
    return ApiError(400, message, code=code, param=param)


class BodyRefused(ApiError):
    """The body of a request was not read to its end: the connection closes."""


def malformed(reason: str) -> ApiError:
    """reason: what of the request is wrong, after "no valid HTTP: "."""
    return ApiError(400, f"The request is no valid HTTP: {reason}.", code="malformed_request")


def headers_too_large(limit: int) -> ApiError:
    """limit: bytes."""
    text = f"The first line of the request, or one of its headers, is larger than {limit} bytes."
    return ApiError(431, text, code="headers_too_large")


def invalid_key(message: str) -> ApiError:
    return ApiError(401, message, code="invalid_api_key")


def model_not_found(model: str) -> ApiError:
    return ApiError(404, f"The model {model!r} does not exist.", code="model_not_found", param="model")


def unavailable(message: str, retry_after_s: int, code: str = "not_ready") -> ApiError:
    return ApiError(503, message, code=code, retry_after_s=retry_after_s)


def too_late(expected_s: float | None, retry_after_s: int) -> ApiError:
    """The first token can't come by the time that the client named. expected_s: when it might."""
    expected = "" if expected_s is None else f": it is expected in {expected_s:.3f} s"
    message = f"The first token can't come within the deadline of this request{expected}."
    return unavailable(message, retry_after_s, "deadline_unreachable")


def internal_error() -> ApiError:
    return ApiError(500, "The router failed unexpectedly.", code="internal_error")


def clients_fault(error: TandemError) -> ApiError:
    """A worker's refusal that only the client can mend, passed on unchanged."""
    return ApiError(400, error.message, code=error.code.value, param=error.param)


def workers_fault(stage: str, code: ErrorCode, attempts: int) -> ApiError:
    """A failure behind the router. The text names the stage and the cause but no worker and no address."""
    status = 504 if code is ErrorCode.DEADLINE_EXCEEDED else 502
    tries = "" if attempts <= 1 else f" ({attempts} attempts)"
    return ApiError(status, f"The answer could not be completed: {stage} failed with {code}{tries}.", code=code.value)
