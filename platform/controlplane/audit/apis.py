"""REST: the audit trail, for administrators."""

from __future__ import annotations

from datetime import datetime

from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.audit.export import MEDIA_TYPES, Format, written
from controlplane.audit.models import AuditEntry
from controlplane.audit.presenters import entry_views
from controlplane.core.errors import Invalid
from controlplane.core.rest.listing import Filter, Listing, matching
from controlplane.core.rest.schema import Parameter, documented
from controlplane.core.rest.view import ControlView
from inference.contracts.answers import Page
from inference.contracts.states import UserRole
from inference.contracts.views.audit import AuditEntryView

_TEXT = ("actor", "action", "target_name", "target_id", "reason", "request_id", "address", "before", "after")
_FILTERS = {
    "actor": Filter("actor", description="Name of who did it."),
    "action": Filter("action__startswith", description='"pool.resize", or its beginning: "pool.".'),
    "target_kind": Filter("target_kind"),
    "target": Filter(("target_id", "target_name"), description="Id or name of what was changed."),
    "request_id": Filter("request_id"),
    "text": Filter(tuple(f"{column}__icontains" for column in _TEXT), description="Anywhere in the entry."),
    "since": Filter("at__gte", datetime, "From this moment on."),
    "until": Filter("at__lt", datetime, "Before this moment."),
}


class AuditApi(ControlView):
    roles = {"get": UserRole.ADMIN}
    listing = Listing(orders={"at": "at"}, order="-at", filters=_FILTERS)

    @documented("Search the audit trail", answers={200: Page[AuditEntryView]})
    def get(self, request: Request) -> Response:
        """Every write that went through: who, when, from where, what was there before and after. Entries are never
        changed or removed."""
        return self.page(AuditEntry.objects.all(), entry_views)


class AuditExportApi(ControlView):
    roles = {"get": UserRole.ADMIN}

    @documented(
        "Export the audit trail",
        answers={200: str},
        media_types=("text/csv", "application/jsonl"),
        query={
            "format": Parameter(Format, "One entry a line, as CSV or as JSON.", required=True),
            **{name: Parameter(each.kind, each.description) for name, each in _FILTERS.items()},
        },
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """The oldest first, streamed."""
        asked = request.query_params.get("format", "")
        if asked not in list(Format):
            raise Invalid(f"format is csv or jsonl, not {asked[:100]!r}.", code="invalid_parameter", field="format")
        format = Format(asked)
        return StreamingHttpResponse(
            written(matching(request.query_params, _FILTERS, AuditEntry.objects.all()), format),
            content_type=MEDIA_TYPES[format],
            headers={
                "Content-Disposition": f'attachment; filename="audit.{format}"',
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            },
        )
