"""What is answered outside of any endpoint: programs that call /api get the same error shape there too."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views import defaults

from controlplane.core.api import ErrorAnswer, Refusal
from inference.contracts import codec

API_PREFIX = "/api/"


def unknown_endpoint(request: HttpRequest, **_: str) -> HttpResponse:
    """404 for an address under /api that no endpoint has."""
    return _refused(404, "not_found", f"There is no endpoint {request.path}; /api/v1/docs lists them.")


def server_error(request: HttpRequest) -> HttpResponse:
    """500: our fault. Django has logged the exception; nothing of it is shown."""
    if not request.path.startswith(API_PREFIX):
        return defaults.server_error(request)
    return _refused(500, "internal_error", "Something went wrong inside Tandem; its log says what.")


def _refused(status: int, code: str, message: str) -> HttpResponse:
    content = codec.encode(ErrorAnswer(error=Refusal(code=code, message=message)))
    return HttpResponse(content, status=status, content_type="application/json")
