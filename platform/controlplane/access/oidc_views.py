"""Login through the identity provider, as the browser walks it: there and back."""

from __future__ import annotations

from dataclasses import replace

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from controlplane.access import oidc, oidc_client, sessions
from controlplane.access.oidc_client import LoginProblem
from controlplane.core.address import client_address
from controlplane.core.principal import SYSTEM, acting
from controlplane.core.request_id import current_request_id

LOGIN_PAGE = "/login"

_NEXT = "oidc_next"

#: A login that is not finished is forgotten after so many seconds.
_UNFINISHED_S = 900


@require_GET
@never_cache
def oidc_start(request: HttpRequest) -> HttpResponse:
    """Leave for the provider. `next`: the page of the console to come back to."""
    _require_enabled()
    if not request.user.is_authenticated:
        request.session.set_expiry(_UNFINISHED_S)
    request.session[_NEXT] = _own_page(request.GET.get("next", ""))
    try:
        return oidc_client.redirect_to_provider(request)
    except LoginProblem as error:
        return _back_to_login(error)


@require_GET
@never_cache
def oidc_callback(request: HttpRequest) -> HttpResponse:
    """Come back from the provider, logged in or with the reason why not in the login page's address."""
    _require_enabled()
    ours = replace(SYSTEM, address=client_address(request), request_id=current_request_id())
    try:
        with acting(ours):  # it is not before this that anybody has a name here
            user = oidc.user_of(oidc_client.person_in_answer(request))
    except LoginProblem as error:
        return _back_to_login(error)
    page = request.session.pop(_NEXT, "/")
    sessions.session_open(request, user, how="oidc")
    request.session.set_expiry(None)
    return HttpResponseRedirect(page)


def _require_enabled() -> None:
    if not oidc_client.enabled():
        raise Http404


def _own_page(page: str) -> str:
    """`page` where it is one of ours: nobody is sent elsewhere by a link to this login."""
    return page if page.startswith("/") and url_has_allowed_host_and_scheme(page, allowed_hosts=None) else "/"


def _back_to_login(error: LoginProblem) -> HttpResponse:
    return HttpResponseRedirect(f"{LOGIN_PAGE}?problem={error.problem}")
