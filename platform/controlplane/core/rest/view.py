"""The base of every endpoint: who asks and what they may do, trial runs, repeats, versions, limits.

A write runs in one transaction, whatever its services do:

    who asks -> how often -> may they -> parameters known -> done before? -> { same version? -> handler } -> answer

Services therefore do all their work in the database and `transaction.on_commit`; a trial run (`?dry_run=true`) is the
same work rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import msgspec
import structlog
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import RequestDataTooBig
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import principal
from controlplane.core.address import client_address
from controlplane.core.errors import Forbidden, Invalid
from controlplane.core.principal import ANONYMOUS, Principal
from controlplane.core.request_id import current_request_id
from controlplane.core.rest import idempotency, versions
from controlplane.core.rest.api import answer
from controlplane.core.rest.limits import max_body_bytes
from controlplane.core.rest.listing import Listing, page_of_rows, page_of_views
from controlplane.core.rest.parsing import BodyTooLarge
from controlplane.core.rest.schema import parameters_of
from controlplane.core.rest.throttling import SAFE, PrincipalThrottle
from controlplane.core.secrecy import masked
from inference.contracts.answers import Page
from inference.contracts.states import UserRole

T = TypeVar("T")
R = TypeVar("R", bound=Model)

DRY_RUN = "dry_run"
DRY_RUN_HEADER = "Dry-Run"


class ControlView(APIView):
    """
    public: needs no login; then there is no Idempotency-Key either, since strangers would share their keys.
    roles: method in lower case -> role it needs, where that is not VIEWER for reading and OPERATOR for the rest.
    transactional: False where something must stay although the request is refused (a failed login is counted), or where
    the work is not all in the database. Such a write knows no trial run, no If-Match and no Idempotency-Key.
    listing: filters and orders of what GET lists (see `page` and `page_of`).
    """

    public: ClassVar[bool] = False
    roles: ClassVar[Mapping[str, UserRole]] = {}
    transactional: ClassVar[bool] = True
    listing: ClassVar[Listing | None] = None

    permission_classes = []
    throttle_classes = [PrincipalThrottle]
    principal: Principal = ANONYMOUS

    # -- what endpoints override -----------------------------------------------------------------------

    def deployment(self, request: Request, **kwargs: Any) -> str | None:
        """Name of the deployment that the request is about: a role that was granted for it counts then."""
        return None

    def version(self, view: Any) -> Any:
        """What of `view`, the answer of GET, a writer means by its version: a generation, or the values that only
        people change. All of it, where this is not overridden."""
        return view

    # -- what endpoints call -----------------------------------------------------------------------------

    def page(self, rows: QuerySet[R], present: Callable[[Sequence[R]], Sequence[Any]]) -> Response:
        """The page of `rows` that the request asks for. present: rows of one page -> their views."""
        return answer(page_of_rows(self.request.query_params, self._listing(), rows, present))

    def page_of(self, views: Sequence[T], *, key: str) -> Response:
        """The same for views that were worked out already. key: the attribute that tells them apart."""
        return answer(page_of_views(self.request.query_params, self._listing(), views, key=key))

    def _listing(self) -> Listing:
        if self.listing is None:
            raise TypeError(f"{type(self).__name__} lists something and says nothing about its listing")
        return self.listing

    # -- the course of a request -----------------------------------------------------------------------------

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        self.args, self.kwargs = args, kwargs
        self.headers = self.default_response_headers
        self.request = asked = self.initialize_request(request, *args, **kwargs)
        try:
            self.initial(asked, *args, **kwargs)
            with principal.acting(self.principal):
                response = self._read(asked) if asked.method in SAFE else self._write(asked)
        except Exception as error:
            response = self.handle_exception(error)
        self.response = self.finalize_response(asked, response, *args, **kwargs)
        return self.response

    def perform_authentication(self, request: Request) -> None:
        user = request.user
        by = request.auth if isinstance(request.auth, Principal) else _principal_of(user)
        self.principal = replace(by, address=client_address(request._request), request_id=current_request_id())

    def check_permissions(self, request: Request) -> None:
        """
        Raises:
            Forbidden: the role does not suffice.
        """
        if not self.public and not request.user.is_authenticated:
            self.permission_denied(request)
        method = (request.method or "").lower().replace("head", "get")
        if self.public or not hasattr(self, method):  # the latter is refused as such
            return
        needed = self.roles.get(method, UserRole.VIEWER if request.method in SAFE else UserRole.OPERATOR)
        by = self.principal
        if by.only is None and by.may(needed):
            return
        # Where it can't depend on the deployment none is looked for: no 404 tells what is there and what is not.
        deployment = self.deployment(request, **self.kwargs) if by.grants or by.only is not None else None
        if not by.may(needed, deployment):
            where = f" for {deployment}" if deployment else ""
            raise Forbidden(f"This needs the role {needed}{where}, which {by.name} does not have.", code="forbidden")

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.method not in SAFE:
            _keep_body(request)
        super().initial(request, *args, **kwargs)
        self._require_known_parameters(request)

    def _require_known_parameters(self, request: Request) -> None:
        """A misspelt filter must not list everything, nor a misspelt dry_run do everything."""
        known = parameters_of(self, request.method or "")
        if known is None:
            return
        for name in request.query_params:
            if name not in known:
                offered = f"known are {', '.join(sorted(known))}" if known else "there are none here"
                raise Invalid(
                    f"There is no parameter {name[:100]!r}; {offered}.", code="unknown_parameter", field=name[:100]
                )

    def _read(self, request: Request) -> Any:
        response = self._handler(request)(request, *self.args, **self.kwargs)
        if (view := _single(response)) is not None:
            response["ETag"] = versions.etag(self.version(view))
        return response

    def _write(self, request: Request) -> Any:
        handler = self._handler(request)
        if not self.transactional:
            _refuse_what_needs_a_transaction(request)
            return handler(request, *self.args, **self.kwargs)

        def write() -> Response:
            self._require_version(request)
            response: Response = handler(request, *self.args, **self.kwargs)
            return response

        if _is_trial(request):
            return _tried(write)
        name = None if self.public else idempotency.named(request, self.principal)
        if name is not None:
            return idempotency.once(name, write)
        with transaction.atomic():
            return write()

    def _require_version(self, request: Request) -> None:
        """
        Raises:
            StaleVersion: it is another one than If-Match names.
            Invalid: this address has no version.
        """
        if (if_match := request.headers.get("If-Match")) is None:
            return
        versions.take_turns(request.path)
        view = _single(self.get(request, *self.args, **self.kwargs)) if hasattr(self, "get") else None
        if view is None:
            raise _without_version()
        versions.require(if_match, versions.etag(self.version(view)), view)

    def _handler(self, request: Request) -> Callable[..., Any]:
        method = (request.method or "").lower()
        if method in self.http_method_names and hasattr(self, method):
            handler: Callable[..., Any] = getattr(self, method)
            return handler
        raise exceptions.MethodNotAllowed(request.method or "")


def _principal_of(user: AbstractBaseUser | AnonymousUser) -> Principal:
    """For authentication that knows no roles."""
    if not user.is_authenticated:
        return ANONYMOUS
    role = UserRole.ADMIN if getattr(user, "is_superuser", False) else UserRole.VIEWER
    return Principal(name=user.get_username(), role=role)


def _keep_body(request: Request) -> None:
    """Read the body before anybody else does (the CSRF check looks into it), so that it can be read more than once.

    Raises:
        BodyTooLarge: longer than a body may be.
    """
    try:
        length = len(request._request.body)
    except RequestDataTooBig as error:
        raise BodyTooLarge from error
    if length > max_body_bytes():
        raise BodyTooLarge
    # REST framework takes a body that was not announced for none at all.
    request.META["CONTENT_LENGTH"] = str(length)


def _single(response: HttpResponseBase) -> Any:
    """The one object that `response` shows; None for lists and everything else."""
    view = getattr(response, "data", None)
    return view if isinstance(view, msgspec.Struct) and not isinstance(view, Page) else None


def _is_trial(request: Request) -> bool:
    asked = request.query_params.get(DRY_RUN, "false")
    if asked not in ("true", "false"):
        raise Invalid(f"dry_run is true or false, not {asked[:100]!r}.", code="invalid_parameter", field=DRY_RUN)
    return asked == "true"


def _without_version() -> Invalid:
    return Invalid("What is here has no version; leave If-Match out.", code="no_version")


def _refuse_what_needs_a_transaction(request: Request) -> None:
    if _is_trial(request):
        raise Invalid("This can't be tried without doing it; leave dry_run out.", code="no_dry_run", field=DRY_RUN)
    if "If-Match" in request.headers:
        raise _without_version()


def _tried(write: Callable[[], Response]) -> Response:
    """What `write` would have answered. Nothing of it stays, and nothing that it meant to send is sent."""
    with structlog.contextvars.bound_contextvars(dry_run=True), transaction.atomic():
        response = write()
        transaction.set_rollback(True)
    response.data = masked(msgspec.to_builtins(response.data))
    response[DRY_RUN_HEADER] = "true"
    return response
