"""What is answered outside of any endpoint: programs that call /api get the same error shape there too."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views import csrf, defaults
from django.views.decorators.csrf import csrf_exempt

from controlplane.core.rest.problems import PROBLEM_JSON, problem
from inference.contracts import codec

API_PREFIX = "/api/"


def _printable(path: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in path[:200])


@csrf_exempt
def unknown_endpoint(request: HttpRequest, **_: str) -> HttpResponse:
    """404 for an address under /api that no endpoint has."""
    return _refused(404, "not_found", f"There is no endpoint {_printable(request.path)}; /api/v1/docs lists them.")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400 for what Django itself refuses before any endpoint sees it: a host that is not ours, a broken address."""
    if not request.path.startswith(API_PREFIX):
        return defaults.bad_request(request, exception)
    return _refused(400, "bad_request", "This request can't be read: its address, host or headers are not in order.")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404 for what not even the addresses of last resort take (a line break in it)."""
    if not request.path.startswith(API_PREFIX):
        return defaults.page_not_found(request, exception)
    return unknown_endpoint(request)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 where Django's own middleware misses the CSRF token (endpoints look for it themselves)."""
    if not request.path.startswith(API_PREFIX):
        return csrf.csrf_failure(request, reason)
    return _refused(403, "csrf_failed", "The CSRF token is missing or wrong.")


def server_error(request: HttpRequest) -> HttpResponse:
    """500: our fault. Django has logged the exception; nothing of it is shown."""
    if not request.path.startswith(API_PREFIX):
        return defaults.server_error(request)
    return _refused(500, "internal_error", "Something went wrong inside Tandem; its log says what.")


def _refused(status: int, code: str, message: str) -> HttpResponse:
    return HttpResponse(codec.encode(problem(status, code, message)), status=status, content_type=PROBLEM_JSON)
