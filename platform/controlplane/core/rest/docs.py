"""The description of the API for programs, and its page for people."""

from __future__ import annotations

from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from controlplane.core.rest.view import ControlView


class SchemaApi(ControlView, SpectacularAPIView):
    """OpenAPI 3.1 as JSON."""

    renderer_classes = [OpenApiJsonRenderer]


class DocsPage(ControlView, SpectacularSwaggerView):
    """Swagger UI, from files of our own."""
