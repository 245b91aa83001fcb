"""What is answered outside of any endpoint: programs that call /api get the same error shape there too."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views import defaults

from controlplane.core.problems import PROBLEM_JSON, problem
from inference.contracts import codec

API_PREFIX = "/api/"


def unknown_endpoint(request: HttpRequest, **_: str) -> HttpResponse:
    """404 for an address under /api that no endpoint has."""
    return _refused(404, "not_found", f"There is no endpoint {request.path}; /api/v1/docs lists them.")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400 for what Django itself refuses before any endpoint sees it: a host that is not ours, a broken address."""
    if not request.path.startswith(API_PREFIX):
        return defaults.bad_request(request, exception)
    return _refused(400, "bad_request", "This request can't be read: its address, host or headers are not in order.")


def server_error(request: HttpRequest) -> HttpResponse:
    """500: our fault. Django has logged the exception; nothing of it is shown."""
    if not request.path.startswith(API_PREFIX):
        return defaults.server_error(request)
    return _refused(500, "internal_error", "Something went wrong inside Tandem; its log says what.")


def _refused(status: int, code: str, message: str) -> HttpResponse:
    return HttpResponse(codec.encode(problem(status, code, message)), status=status, content_type=PROBLEM_JSON)
