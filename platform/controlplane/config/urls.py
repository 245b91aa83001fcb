"""Every address of the control plane. Each app brings its own; the console takes whatever is left."""

from __future__ import annotations

from django.urls import include, path

from controlplane.core.rest.docs import DocsPage, SchemaApi
from controlplane.core.rest.health import healthz
from controlplane.core.rest.pages import unknown_endpoint

urlpatterns = [
    path("api/v1/", include("controlplane.audit.urls")),
    path("api/v1/", include("controlplane.access.urls")),
    path("api/v1/", include("controlplane.catalog.urls")),
    path("api/v1/", include("controlplane.fleet.urls")),
    path("api/v1/", include("controlplane.operations.urls")),
    path("api/v1/", include("controlplane.pools.urls")),
    path("api/v1/", include("controlplane.console.api_urls")),
    path("api/v1/schema", SchemaApi.as_view(), name="schema"),
    path("api/v1/docs", DocsPage.as_view(url_name="schema"), name="docs"),
    path("api/<path:rest>", unknown_endpoint),
    path("healthz", healthz),
    path("", include("controlplane.inspection.urls")),
    path("", include("controlplane.console.urls")),
]

handler400 = "controlplane.core.rest.pages.bad_request"
handler404 = "controlplane.core.rest.pages.not_found"
handler500 = "controlplane.core.rest.pages.server_error"
