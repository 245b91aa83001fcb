"""REST: what operators can ask of nodes that concerns the workers there. The rest of nodes is in the fleet app."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core import principal
from controlplane.core.errors import Invalid
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.schema import Parameter, documented
from controlplane.core.rest.view import ControlView
from controlplane.fleet.apis import node_operation_answer
from controlplane.fleet.services import log_fetch
from controlplane.operations.asking import on_conflict
from controlplane.pools import selectors
from controlplane.pools.apis.pools import OfWorker
from controlplane.pools.workflows.node_drain import node_drain
from controlplane.pools.workflows.node_retire import node_retire_start
from inference.contracts.answers import NodeOperationAnswer
from inference.contracts.bodies.fleet import NodeReasonBody
from inference.contracts.reports import LogReply
from inference.contracts.states import LogRun


class NodeDrainApi(ControlView):
    @documented(
        "Drain a node",
        body=NodeReasonBody,
        answers={202: NodeOperationAnswer},
        refusals=[404, 409],
        queueable=True,
    )
    def post(self, request: Request, node_id: UUID) -> Response:
        """Its workers move elsewhere, where there is room, or finish what they have. Tried with `dry_run=true`, the
        operation's preview says which move where. Cancelling it takes back what has not left yet."""
        operation = node_drain(
            node_id,
            requested_by=principal.current().name,
            reason=body(request, NodeReasonBody).reason,
            on_conflict=on_conflict(request),
        )
        return node_operation_answer(node_id, operation, 202)


class NodeRetireApi(ControlView):
    @documented(
        "Retire a node",
        body=NodeReasonBody,
        answers={202: NodeOperationAnswer},
        refusals=[404, 409],
        queueable=True,
    )
    def post(self, request: Request, node_id: UUID) -> Response:
        """Final: its credentials are void at once and what it runs counts as gone. The machine may join again as a new
        node, with a new token and a new data folder."""
        operation = node_retire_start(
            node_id,
            requested_by=principal.current().name,
            reason=body(request, NodeReasonBody).reason,
            on_conflict=on_conflict(request),
        )
        return node_operation_answer(node_id, operation, 202)


class WorkerLogApi(OfWorker):
    @documented(
        "Show the log of a worker",
        answers={200: LogReply},
        refusals=[404, 409],
        query={
            "run": Parameter(LogRun, "Of its process now, or of the one before."),
            "lines": Parameter(int, "The last so many."),
        },
    )
    def get(self, request: Request, worker_id: UUID) -> Response:
        """Asked of its node while you wait; nothing of it is stored. 409: the node does not report, or has no such
        log; the sentence says which."""
        worker = selectors.worker_get(worker_id)
        lines = log_fetch(worker.node, str(worker.pk), run=_run(request), lines=_lines(request))
        return answer(LogReply(lines=lines))


def _run(request: Request) -> LogRun:
    asked = request.query_params.get("run", LogRun.CURRENT)
    if asked not in set(LogRun):
        raise Invalid(f"run is {' or '.join(LogRun)}, not {asked[:100]!r}.", code="invalid_parameter", field="run")
    return LogRun(asked)


def _lines(request: Request) -> int:
    asked = request.query_params.get("lines", "200")
    if not (asked.isascii() and asked.isdecimal() and len(asked) < 10):
        raise Invalid(f"lines is a whole number, not {asked[:100]!r}.", code="invalid_parameter", field="lines")
    return int(asked)
