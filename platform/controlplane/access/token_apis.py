"""REST: management tokens. Everybody from operator up has their own; admins see and end those of all."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access import tokens
from controlplane.access.authentication import owner_of
from controlplane.access.presenters import issued_token_view, token_view
from controlplane.core import principal
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.listing import Filter, Listing
from controlplane.core.rest.schema import documented
from controlplane.core.rest.view import ControlView
from inference.contracts.answers import Page
from inference.contracts.bodies.access import RotateBody, TokenBody
from inference.contracts.states import UserRole
from inference.contracts.views.access import IssuedTokenView, TokenView

#: Who has a higher role for one deployment only may have tokens too: the services look closer.
_EVERYBODY = dict.fromkeys(("get", "post", "delete"), UserRole.VIEWER)


class TokenListApi(ControlView):
    roles = _EVERYBODY

    listing = Listing(
        orders={"created_at": "created_at", "name": "name"},
        order="-created_at",
        filters={
            "name": Filter("name"),
            "owner": Filter("owner__username"),
            "active": Filter("revoked_at__isnull", bool, "Not revoked."),
        },
    )

    @documented("List management tokens", answers={200: Page[TokenView]})
    def get(self, request: Request) -> Response:
        """Newest first, revoked ones included: all of them for admins, for others their own."""
        rows = tokens.tokens_seen_by(principal.current(), owner_of(request))
        return self.page(rows, lambda found: [token_view(row) for row in found])

    @documented("Create a management token", body=TokenBody, answers={201: IssuedTokenView}, refusals=[403, 409])
    def post(self, request: Request) -> Response:
        """The answer is the only place where the token is ever shown."""
        wanted = body(request, TokenBody)
        issued = tokens.token_create(
            by=principal.current(),
            owner=owner_of(request),
            name=wanted.name,
            role=wanted.role,
            only=wanted.only,
            expires_in_days=wanted.expires_in_days,
        )
        return answer(issued_token_view(issued.row, issued.raw), 201)


class TokenApi(ControlView):
    roles = _EVERYBODY

    @documented("Revoke a management token", answers={204: None}, refusals=[403, 404])
    def delete(self, request: Request, token_id: UUID) -> Response:
        """At once. It stays in the list as revoked."""
        tokens.token_revoke(by=principal.current(), user=owner_of(request), token_id=token_id)
        return Response(status=204)


class TokenRotateApi(ControlView):
    roles = _EVERYBODY

    @documented("Rotate a management token", body=RotateBody, answers={200: IssuedTokenView}, refusals=[403, 404, 409])
    def post(self, request: Request, token_id: UUID) -> Response:
        """A new token with the same rights; the old one stays good for the grace."""
        issued = tokens.token_rotate(
            by=principal.current(),
            user=owner_of(request),
            token_id=token_id,
            grace_s=body(request, RotateBody).grace_s,
        )
        return answer(issued_token_view(issued.row, issued.raw))
