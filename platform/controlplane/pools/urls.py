from __future__ import annotations

from django.urls import path

from controlplane.pools import apis

urlpatterns = [
    path("deployments", apis.DeploymentListApi.as_view()),
    path("deployments/<str:name>", apis.DeploymentApi.as_view()),
    path("pools/<uuid:pool_id>", apis.PoolApi.as_view()),
    path("workers/<uuid:worker_id>/restart", apis.WorkerRestartApi.as_view()),
]
