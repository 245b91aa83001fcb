from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from controlplane.pools import apis, node_apis, pool_apis


class NameConverter(StringConverter):
    """Text without U+0000, which PostgreSQL would not even look for."""

    regex = r"[^/\x00]+"


register_converter(NameConverter, "name")

urlpatterns = [
    path("nodes/<uuid:node_id>/drain", node_apis.NodeDrainApi.as_view()),
    path("nodes/<uuid:node_id>/retire", node_apis.NodeRetireApi.as_view()),
    path("workers/<uuid:worker_id>/logs", node_apis.WorkerLogApi.as_view()),
    path("deployments", apis.DeploymentListApi.as_view()),
    path("deployments/<name:name>", apis.DeploymentApi.as_view()),
    path("deployments/<name:name>/rebalance", apis.RebalanceApi.as_view()),
    path("deployments/<name:name>/revisions", apis.RevisionListApi.as_view()),
    path("deployments/<name:name>/rollout", apis.RolloutApi.as_view()),
    path("deployments/<name:name>/rollout/pause", apis.RolloutPauseApi.as_view()),
    path("deployments/<name:name>/rollout/resume", apis.RolloutResumeApi.as_view()),
    path("deployments/<name:name>/rollback", apis.RollBackApi.as_view()),
    path("pools/<uuid:pool_id>", pool_apis.PoolApi.as_view()),
    path("workers/<uuid:worker_id>/flip", pool_apis.WorkerFlipApi.as_view()),
    path("workers/<uuid:worker_id>/restart", pool_apis.WorkerRestartApi.as_view()),
]
