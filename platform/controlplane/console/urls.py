"""The console's pages and files: whatever no other address takes."""

from __future__ import annotations

from django.conf import settings
from django.urls import URLPattern, path

from controlplane.console.frontend import app_file, console_page

urlpatterns: list[URLPattern] = [
    path(f"{settings.STATIC_URL.strip('/')}/<path:path>", app_file),
    path("", console_page),
    path("<path:path>", console_page),
]
