from __future__ import annotations

from django.urls import path

from controlplane.fleet import apis, join_apis

urlpatterns = [
    path("nodes", apis.NodeListApi.as_view()),
    path("nodes/join", join_apis.NodeJoinApi.as_view()),
    path("nodes/hello", join_apis.NodeHelloApi.as_view()),
    path("nodes/<uuid:node_id>", apis.NodeApi.as_view()),
    path("nodes/<uuid:node_id>/cordon", apis.NodeCordonApi.as_view()),
    path("nodes/<uuid:node_id>/uncordon", apis.NodeUncordonApi.as_view()),
    path("devices/<int:device_id>", apis.DeviceApi.as_view()),
    path("links", apis.LinkListApi.as_view()),
    path("links/measure", apis.LinkMeasureApi.as_view()),
    path("join-tokens", join_apis.JoinTokenListApi.as_view()),
    path("join-tokens/<int:token_id>", join_apis.JoinTokenApi.as_view()),
]
