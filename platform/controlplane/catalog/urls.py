from __future__ import annotations

from django.urls import path

from controlplane.catalog import apis

urlpatterns = [
    path("models", apis.ModelListApi.as_view()),
]
