from __future__ import annotations

from django.urls import path

from controlplane.audit import apis

urlpatterns = [
    path("audit", apis.AuditApi.as_view()),
    path("audit/export", apis.AuditExportApi.as_view()),
]
