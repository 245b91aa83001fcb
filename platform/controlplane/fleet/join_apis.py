"""REST: how a machine becomes a node, and what it says at each later start."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core import principal
from controlplane.core.address import client_address
from controlplane.core.clock import iso
from controlplane.core.errors import Unauthenticated
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.listing import Listing
from controlplane.core.rest.schema import documented
from controlplane.core.rest.view import ControlView
from controlplane.fleet import desired, joining, selectors
from controlplane.fleet.presenters import join_token_view
from inference.contracts.answers import Page
from inference.contracts.bodies.fleet import JoinTokenBody
from inference.contracts.reports import NodeHello, NodeWelcome
from inference.contracts.views.fleet import JoinTokenOpenView, JoinTokenView

_JOIN_SCHEME = "Join "


class JoinTokenListApi(ControlView):
    listing = Listing(orders={"created_at": "created_at"}, order="-created_at")

    @documented("List join tokens", answers={200: Page[JoinTokenOpenView]})
    def get(self, request: Request) -> Response:
        """Those that can still be used, without the tokens themselves."""
        return self.page(selectors.join_tokens_open(), lambda tokens: [join_token_view(token) for token in tokens])

    @documented("Create a join token", body=JoinTokenBody, answers={201: JoinTokenView})
    def post(self, request: Request) -> Response:
        """The token lets one machine join, once. The answer is the only place where it is ever shown."""
        wanted = body(request, JoinTokenBody)
        issued = joining.join_token_create(created_by=principal.current().name, note=wanted.note, ttl_s=wanted.ttl_s)
        view = JoinTokenView(token=issued.raw, expires_at=iso(issued.row.expires_at), command=issued.command)
        return answer(view, 201)


class JoinTokenApi(ControlView):
    @documented("Revoke a join token", answers={204: None}, refusals=[404])
    def delete(self, request: Request, token_id: int) -> Response:
        desired.join_token_revoke(token_id)
        return Response(status=204)


class NodeJoinApi(ControlView):
    """Called by agents, which have no login: the join token stands for it."""

    authentication_classes = []
    public = True
    transactional = False  # Redis learns of the node, too

    @documented("Join as a node", body=NodeHello, answers={200: NodeWelcome}, refusals=[401, 409], public=True)
    def post(self, request: Request) -> Response:
        """For agents: header `Authorization: Join <token>`."""
        token = _join_token(request)
        joining.join_token_check(token)
        welcome = joining.node_join(
            token=token, hello=body(request, NodeHello), remote_address=client_address(request._request)
        )
        return answer(welcome)


class NodeHelloApi(ControlView):
    """Called by agents at each start, which prove themselves by their node key."""

    authentication_classes = []
    public = True
    transactional = False

    @documented("Say hello as a node", body=NodeHello, answers={200: NodeWelcome}, refusals=[401, 409], public=True)
    def post(self, request: Request) -> Response:
        """For agents: header `Authorization: Node <code>`, the authentication code of exactly this body."""
        sent = request._request.body  # before it is read as JSON: the code covers its bytes
        welcome = joining.node_hello(
            body=sent, authorization=request.headers.get("Authorization"), hello=body(request, NodeHello)
        )
        return answer(welcome)


def _join_token(request: Request) -> str:
    header = request.headers.get("Authorization", "")
    if not header.startswith(_JOIN_SCHEME):
        raise Unauthenticated(
            "A node joins with the header 'Authorization: Join <token>'; it is missing.", code="join_token_missing"
        )
    return header.removeprefix(_JOIN_SCHEME).strip()
