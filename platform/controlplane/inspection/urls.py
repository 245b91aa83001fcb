from __future__ import annotations

from django.urls import path

from controlplane.inspection.site import site_of_every_table

urlpatterns = [path("admin/", site_of_every_table().urls)]
