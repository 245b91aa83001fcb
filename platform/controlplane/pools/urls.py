from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from controlplane.pools.apis import deployments, nodes, pools


class NameConverter(StringConverter):
    """Text without U+0000, which PostgreSQL would not even look for."""

    regex = r"[^/\x00]+"


register_converter(NameConverter, "name")

urlpatterns = [
    path("nodes/<uuid:node_id>/drain", nodes.NodeDrainApi.as_view()),
    path("nodes/<uuid:node_id>/retire", nodes.NodeRetireApi.as_view()),
    path("workers/<uuid:worker_id>/logs", nodes.WorkerLogApi.as_view()),
    path("deployments", deployments.DeploymentListApi.as_view()),
    path("deployments/<name:name>", deployments.DeploymentApi.as_view()),
    path("deployments/<name:name>/rebalance", deployments.RebalanceApi.as_view()),
    path("deployments/<name:name>/revisions", deployments.RevisionListApi.as_view()),
    path("deployments/<name:name>/rollout", deployments.RolloutApi.as_view()),
    path("deployments/<name:name>/rollout/pause", deployments.RolloutPauseApi.as_view()),
    path("deployments/<name:name>/rollout/resume", deployments.RolloutResumeApi.as_view()),
    path("deployments/<name:name>/rollback", deployments.RollBackApi.as_view()),
    path("pools/<uuid:pool_id>", pools.PoolApi.as_view()),
    path("workers/<uuid:worker_id>/flip", pools.WorkerFlipApi.as_view()),
    path("workers/<uuid:worker_id>/restart", pools.WorkerRestartApi.as_view()),
]
