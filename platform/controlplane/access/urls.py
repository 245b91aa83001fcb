from __future__ import annotations

from django.urls import path

from controlplane.access import apis

urlpatterns = [
    path("session", apis.SessionApi.as_view()),
    path("keys", apis.KeyListApi.as_view()),
    path("keys/<uuid:key_id>", apis.KeyApi.as_view()),
]
