from __future__ import annotations

from django.urls import path

from controlplane.catalog import apis

urlpatterns = [
    path("models", apis.ModelListApi.as_view()),
    path("models/<str:name>", apis.ModelApi.as_view()),
    path("models/<str:name>/fit", apis.ModelFitApi.as_view()),
    path("models/<str:name>/weights", apis.ModelWeightsApi.as_view()),
    path("models/<str:name>/fetch", apis.ModelFetchApi.as_view()),
]
