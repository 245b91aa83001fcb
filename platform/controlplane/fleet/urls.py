from __future__ import annotations

from django.urls import path

from controlplane.fleet import apis

urlpatterns = [
    path("nodes", apis.NodeListApi.as_view()),
    path("nodes/join", apis.NodeJoinApi.as_view()),
    path("nodes/<uuid:node_id>", apis.NodeApi.as_view()),
    path("join-tokens", apis.JoinTokenListApi.as_view()),
]
