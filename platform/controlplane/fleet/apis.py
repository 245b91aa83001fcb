"""REST: nodes, their devices, and the network between them. How machines join is in `join_apis`."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core import principal
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.listing import Filter, Listing
from controlplane.core.rest.schema import documented
from controlplane.core.rest.view import ControlView
from controlplane.fleet import desired, selectors, workflows
from controlplane.fleet.presenters import device_view, link_view, node_views
from controlplane.operations.asking import on_conflict
from controlplane.operations.models import Operation
from controlplane.operations.presenters import operation_view
from inference.contracts.answers import MeasureAnswer, NodeOperationAnswer, Page
from inference.contracts.bodies.fleet import DeviceBody, MeasureBody, NodeBody, NodeReasonBody
from inference.contracts.states import NodeDesired, NodePhase
from inference.contracts.views.fleet import DeviceView, LinkView, NodeView


class NodeListApi(ControlView):
    listing = Listing(
        orders={"name": "name", "joined_at": "joined_at"},
        order="name",
        filters={
            "name": Filter("name"),
            "name_contains": Filter("name__icontains"),
            "phase": Filter("phase", NodePhase),
            "desired": Filter("desired", NodeDesired),
            "label": Filter("labels__has_label", description="Nodes that have exactly this label."),
        },
    )

    @documented("List nodes", answers={200: Page[NodeView]})
    def get(self, request: Request) -> Response:
        """Every node with its devices and who holds them. Retired ones stay, for the record."""
        return self.page(selectors.node_list(), node_views)


class NodeApi(ControlView):
    def version(self, view: NodeView) -> object:
        """What people change of a node; what it reports changes by itself."""
        return [view.name, view.desired, view.cordon_reason, view.labels, view.generation]

    @documented("Show one node", answers={200: NodeView}, refusals=[404])
    def get(self, request: Request, node_id: UUID) -> Response:
        return answer(_node(node_id))

    @documented("Label a node", body=NodeBody, answers={200: NodeView}, refusals=[404])
    def patch(self, request: Request, node_id: UUID) -> Response:
        """The labels replace those that it has. Workers that run stay where they are."""
        desired.node_label(node_id, body(request, NodeBody).labels)
        return answer(_node(node_id))


class NodeCordonApi(ControlView):
    @documented(
        "Cordon a node",
        body=NodeReasonBody,
        answers={200: NodeOperationAnswer},
        refusals=[404, 409],
        queueable=True,
    )
    def post(self, request: Request, node_id: UUID) -> Response:
        """It is given nothing new; what it runs stays. Ends a drain that runs, with its workers where they are."""
        operation = workflows.node_cordon(
            node_id,
            by=principal.current().name,
            reason=body(request, NodeReasonBody).reason,
            on_conflict=on_conflict(request),
        )
        return node_operation_answer(node_id, operation)


class NodeUncordonApi(ControlView):
    @documented(
        "Uncordon a node",
        body=NodeReasonBody,
        answers={200: NodeOperationAnswer},
        refusals=[404, 409],
        queueable=True,
    )
    def post(self, request: Request, node_id: UUID) -> Response:
        """It may be given workers again. Ends a drain that runs."""
        operation = workflows.node_uncordon(
            node_id,
            by=principal.current().name,
            reason=body(request, NodeReasonBody).reason,
            on_conflict=on_conflict(request),
        )
        return node_operation_answer(node_id, operation)


class DeviceApi(ControlView):
    @documented("Show one device", answers={200: DeviceView}, refusals=[404])
    def get(self, request: Request, device_id: int) -> Response:
        return answer(device_view(selectors.device_get(device_id)))

    def version(self, view: DeviceView) -> object:
        """What people change of a device; what its node reports changes by itself."""
        return [view.device_id, view.labels, view.maintenance, view.maintenance_note, view.reserved_for]

    @documented("Change a device", body=DeviceBody, answers={200: DeviceView}, refusals=[404])
    def patch(self, request: Request, device_id: int) -> Response:
        """Its labels, whether it is in maintenance, and which deployment it is reserved for."""
        wanted = body(request, DeviceBody)
        device = desired.device_change(
            device_id,
            labels=wanted.labels,
            maintenance=wanted.maintenance,
            maintenance_note=wanted.maintenance_note,
            reserved_for=wanted.reserved_for,
        )
        return answer(device_view(device))

    @documented("Forget a device", answers={204: None}, refusals=[404, 409])
    def delete(self, request: Request, device_id: int) -> Response:
        """Only one that its node does not report any more, and that no worker holds."""
        desired.device_forget(device_id)
        return Response(status=204)


class LinkListApi(ControlView):
    listing = Listing(
        orders={"source": "source__name"},
        order="source",
        filters={"source": Filter("source__name"), "target": Filter("target__name")},
    )

    @documented("List links", answers={200: Page[LinkView]})
    def get(self, request: Request) -> Response:
        """The network from each node to each other one, as far as it was measured."""
        return self.page(selectors.link_list(), lambda links: [link_view(link) for link in links])


class LinkMeasureApi(ControlView):
    @documented(
        "Measure the network", body=MeasureBody, answers={202: MeasureAnswer}, refusals=[404, 409], queueable=True
    )
    def post(self, request: Request) -> Response:
        """With the real transfer code, a few pairs at a time. The operation tells how it goes."""
        wanted = body(request, MeasureBody)
        operation = workflows.network_measure(
            wanted.nodes, by=principal.current().name, reason=wanted.reason, on_conflict=on_conflict(request)
        )
        return answer(MeasureAnswer(operation=operation_view(operation)), 202)


def node_operation_answer(node_id: UUID, operation: Operation, code: int = 200) -> Response:
    """Also for the endpoints of the app above, which drains and retires."""
    return answer(NodeOperationAnswer(node=_node(node_id), operation=operation_view(operation)), code)


def _node(node_id: UUID) -> NodeView:
    return node_views([selectors.node_get(node_id)])[0]
