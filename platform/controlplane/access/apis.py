"""REST: serving keys."""

from __future__ import annotations

from uuid import UUID

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access import selectors, services
from controlplane.access.presenters import issued_key_view, key_view
from controlplane.access.services import KeyRights
from controlplane.core import principal
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.listing import Filter, Listing
from controlplane.core.rest.schema import documented
from controlplane.core.rest.view import ControlView
from inference.contracts.answers import Page
from inference.contracts.bodies.access import KeyBody, KeyChangeBody, RotateBody
from inference.contracts.views.access import IssuedKeyView, KeyView


class KeyListApi(ControlView):
    listing = Listing(
        orders={"created_at": "created_at", "name": "name"},
        order="-created_at",
        filters={
            "name": Filter("name"),
            "created_by": Filter("created_by"),
            "active": Filter("revoked_at__isnull", bool, "Not revoked."),
        },
    )

    @documented("List serving keys", answers={200: Page[KeyView]})
    def get(self, request: Request) -> Response:
        """Newest first, revoked ones included."""
        return self.page(selectors.key_list(), lambda rows: [key_view(row) for row in rows])

    @documented("Create a serving key", body=KeyBody, answers={201: IssuedKeyView})
    def post(self, request: Request) -> Response:
        """The answer is the only place where the key is ever shown."""
        wanted = body(request, KeyBody)
        issued = services.key_create(
            name=wanted.name,
            expires_in_days=wanted.expires_in_days,
            created_by=principal.current().name,
            rights=KeyRights(
                models=wanted.models,
                priority_class=wanted.priority_class,
                requests_per_minute=wanted.requests_per_minute,
                tokens_per_minute=wanted.tokens_per_minute,
                max_concurrent=wanted.max_concurrent,
            ),
        )
        return answer(issued_key_view(issued.row, issued.raw), 201)


class KeyApi(ControlView):
    @documented("Show a serving key", answers={200: KeyView}, refusals=[404])
    def get(self, request: Request, key_id: UUID) -> Response:
        return answer(key_view(selectors.key_get(key_id)))

    @documented("Change a serving key", body=KeyChangeBody, answers={200: KeyView}, refusals=[404])
    def patch(self, request: Request, key_id: UUID) -> Response:
        """Name, models, class and limits. Routers go by them within a second."""
        wanted = msgspec.to_builtins(body(request, KeyChangeBody))  # leaves out what was left out
        return answer(key_view(services.key_change(key_id=key_id, **wanted)))

    @documented("Revoke a serving key", answers={204: None}, refusals=[404])
    def delete(self, request: Request, key_id: UUID) -> Response:
        """Routers refuse the key within a second. It stays in the list as revoked."""
        services.key_revoke(key_id=key_id)
        return Response(status=204)


class KeyRotateApi(ControlView):
    @documented("Rotate a serving key", body=RotateBody, answers={200: IssuedKeyView}, refusals=[404, 409])
    def post(self, request: Request, key_id: UUID) -> Response:
        """A new key with the same rights and limits; the old one stays good for the grace."""
        issued = services.key_rotate(key_id=key_id, grace_s=body(request, RotateBody).grace_s)
        return answer(issued_key_view(issued.row, issued.raw))
