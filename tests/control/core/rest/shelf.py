"""A small endpoint of its own on `ControlView`, over a table that is there anyway: the claims about the base class need
no deployment."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.audit.services import record
from controlplane.catalog.models import Model
from controlplane.config import urls
from controlplane.core import clock, principal
from controlplane.core.enqueue import enqueue
from controlplane.core.errors import Conflict, NotFound
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.listing import Filter, Listing
from controlplane.core.rest.schema import documented
from controlplane.core.rest.view import ControlView
from inference.contracts.answers import Page
from inference.contracts.auth import new_serving_key
from inference.contracts.states import UserRole

BOOKS = "/api/v1/shelf/books"
ADMIN_ONLY = "/api/v1/shelf/admin-only"
UNDONE = "/api/v1/shelf/undone"
DESK = "/api/v1/shelf/desk"


class Book(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    by: str = ""
    key: str = ""
    pages: tuple[int, ...] = (1, 2)


class BookBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    description: str = ""
    secret: bool = False


class ChangeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    description: str


class Calls:
    """How often a handler ran; what it runs in the middle."""

    count: ClassVar[int] = 0

    @classmethod
    def meanwhile(cls) -> None:
        """Replaced by tests."""


class BooksApi(ControlView):
    listing = Listing(
        orders={"name": "name", "description": "description", "created_at": "created_at"},
        order="name",
        filters={"description": Filter("description"), "name": Filter("name__startswith")},
    )

    @documented("List books", answers={200: Page[Book]})
    def get(self, request: Request) -> Response:
        return self.page(Model.objects.all(), lambda rows: [shown(row) for row in rows])

    @documented("Add a book", body=BookBody, answers={201: Book})
    def post(self, request: Request) -> Response:
        Calls.count += 1
        wanted = body(request, BookBody)
        row = Model.objects.create(name=wanted.name, path="/", description=wanted.description, created_at=clock.now())
        record(action="book.add", target_kind="book", target_id=row.pk, target_name=row.name, after={"name": row.name})
        enqueue("tests.added", row.name)
        Calls.meanwhile()
        if wanted.name == "cursed":
            raise Conflict("Nobody may add this.", code="cursed")
        view = shown(row)
        return answer(msgspec.structs.replace(view, key=new_serving_key()) if wanted.secret else view, 201)


class BookApi(ControlView):
    def deployment(self, request: Request, **kwargs: Any) -> str:
        return str(kwargs["name"])

    def version(self, view: Book) -> object:
        return view.description

    @documented("Show a book", answers={200: Book}, refusals=[404])
    def get(self, request: Request, name: str) -> Response:
        return answer(shown(found(name)))

    @documented("Change a book", body=ChangeBody, answers={200: Book}, refusals=[404])
    def patch(self, request: Request, name: str) -> Response:
        row = found(name)
        row.description = body(request, ChangeBody).description
        row.save()
        Calls.meanwhile()
        return answer(shown(row))

    @documented("Throw a book away", answers={204: None}, refusals=[404])
    def delete(self, request: Request, name: str) -> Response:
        found(name).delete()
        return Response(status=204)


class AdminOnlyApi(ControlView):
    roles = {"get": UserRole.ADMIN, "post": UserRole.VIEWER}

    @documented("Show the vault", answers={200: Book})
    def get(self, request: Request) -> Response:
        return answer(Book(name="vault", description=""))

    @documented("Knock at the vault", answers={200: Book})
    def post(self, request: Request) -> Response:
        return answer(Book(name="knock", description=""))


class UndoneApi(ControlView):
    """Something of it stays although it is refused."""

    transactional = False

    @documented("Try in vain", answers={204: None})
    def post(self, request: Request) -> Response:
        Model.objects.create(name="trace", path="/", description="", created_at=clock.now())
        raise Conflict("In vain.")


class DeskApi(ControlView):
    """Needs no login."""

    authentication_classes = []
    public = True

    @documented("Ask at the desk", answers={200: Book}, public=True)
    def post(self, request: Request) -> Response:
        Calls.count += 1
        return answer(Book(name="desk", description="", by=principal.current().name))


def found(name: str) -> Model:
    row = Model.objects.filter(name=name).first()
    if row is None:
        raise NotFound("book", name)
    return row


def shown(row: Model) -> Book:
    return Book(name=row.name, description=row.description, by=principal.current().name)


urlpatterns = [
    path("api/v1/shelf/books", BooksApi.as_view()),
    path("api/v1/shelf/books/<str:name>", BookApi.as_view()),
    path("api/v1/shelf/admin-only", AdminOnlyApi.as_view()),
    path("api/v1/shelf/undone", UndoneApi.as_view()),
    path("api/v1/shelf/desk", DeskApi.as_view()),
    *urls.urlpatterns,
]
handler500 = urls.handler500
