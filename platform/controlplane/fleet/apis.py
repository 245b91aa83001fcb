"""REST: nodes, and how a machine joins."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core.api import answer, body
from controlplane.core.clock import iso
from controlplane.core.errors import Unauthenticated
from controlplane.core.listing import Filter, Listing, Page
from controlplane.core.schema import documented
from controlplane.core.view import ControlView
from controlplane.fleet import joining, selectors
from controlplane.fleet.models import Node
from controlplane.fleet.presenters import node_view
from inference.contracts.console import NodeView
from inference.contracts.reports import NodeHello, NodeWelcome
from inference.contracts.states import NodeDesired, NodePhase

_JOIN_SCHEME = "Join "


class JoinTokenBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """note: what the token is for, in words. ttl_s: seconds it can be used."""

    note: str = ""
    ttl_s: int = joining.DEFAULT_TTL_S


class JoinTokenView(msgspec.Struct, frozen=True, kw_only=True):
    """token: shown this once. command: the one line to run on the new node."""

    token: str
    expires_at: str
    command: str


class NodeListApi(ControlView):
    listing = Listing(
        orders={"name": "name", "joined_at": "joined_at"},
        order="name",
        filters={
            "name": Filter("name"),
            "phase": Filter("phase", NodePhase),
            "desired": Filter("desired", NodeDesired),
        },
    )

    @documented("List nodes", answers={200: Page[NodeView]})
    def get(self, request: Request) -> Response:
        """Every node with its devices and who holds them."""
        return self.page(selectors.node_list(), _views)


def _views(nodes: Sequence[Node]) -> list[NodeView]:
    holders = selectors.device_holders(nodes)
    return [node_view(node, holders) for node in nodes]


class NodeApi(ControlView):
    def version(self, view: NodeView) -> object:
        """What people change of a node; what it reports changes by itself."""
        return [view.name, view.desired, view.cordon_reason, view.labels, view.generation]

    @documented("Show one node", answers={200: NodeView}, refusals=[404])
    def get(self, request: Request, node_id: UUID) -> Response:
        node = selectors.node_get(node_id)
        return answer(node_view(node, selectors.device_holders([node])))


class JoinTokenListApi(ControlView):
    @documented("Create a join token", body=JoinTokenBody, answers={201: JoinTokenView})
    def post(self, request: Request) -> Response:
        """The token lets one machine join, once. The answer is the only place where it is ever shown."""
        wanted = body(request, JoinTokenBody)
        issued = joining.join_token_create(created_by=request.user.get_username(), note=wanted.note, ttl_s=wanted.ttl_s)
        view = JoinTokenView(token=issued.raw, expires_at=iso(issued.row.expires_at), command=issued.command)
        return answer(view, 201)


class NodeJoinApi(ControlView):
    """Called by agents, which have no login: the join token stands for it."""

    authentication_classes = []
    public = True

    @documented("Join as a node", body=NodeHello, answers={200: NodeWelcome}, refusals=[401], public=True)
    def post(self, request: Request) -> Response:
        """For agents: header `Authorization: Join <token>`."""
        token = _join_token(request)
        joining.join_token_check(token)
        welcome = joining.node_join(
            token=token, hello=body(request, NodeHello), remote_address=request.META.get("REMOTE_ADDR", "")
        )
        return answer(welcome)


def _join_token(request: Request) -> str:
    header = request.headers.get("Authorization", "")
    if not header.startswith(_JOIN_SCHEME):
        raise Unauthenticated(
            "A node joins with the header 'Authorization: Join <token>'; it is missing.", code="join_token_missing"
        )
    return header.removeprefix(_JOIN_SCHEME).strip()
