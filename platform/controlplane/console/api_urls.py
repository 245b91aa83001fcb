"""Addresses under /api/v1/."""

from __future__ import annotations

from django.urls import URLPattern, path

from controlplane.console.apis import PlaygroundInfoApi, SnapshotApi
from controlplane.console.playground import chat

urlpatterns: list[URLPattern] = [
    path("snapshot", SnapshotApi.as_view()),
    path("playground/info", PlaygroundInfoApi.as_view()),
    path("playground/chat", chat),
]
