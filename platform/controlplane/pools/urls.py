from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from controlplane.pools import apis


class NameConverter(StringConverter):
    """Text without U+0000, which PostgreSQL would not even look for."""

    regex = r"[^/\x00]+"


register_converter(NameConverter, "name")

urlpatterns = [
    path("deployments", apis.DeploymentListApi.as_view()),
    path("deployments/<name:name>", apis.DeploymentApi.as_view()),
    path("pools/<uuid:pool_id>", apis.PoolApi.as_view()),
    path("workers/<uuid:worker_id>/restart", apis.WorkerRestartApi.as_view()),
]
