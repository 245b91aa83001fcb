from __future__ import annotations

from django.urls import path

from controlplane.operations import apis

urlpatterns = [
    path("operations", apis.OperationListApi.as_view()),
    path("operations/<uuid:operation_id>", apis.OperationApi.as_view()),
    path("operations/<uuid:operation_id>/cancel", apis.OperationCancelApi.as_view()),
    path("operations/<uuid:operation_id>/retry", apis.OperationRetryApi.as_view()),
]
