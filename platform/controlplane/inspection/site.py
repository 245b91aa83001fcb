"""Django's admin, as a window: every row of every table, for admins, and nothing that changes one.

Services own all writes: they check, announce, send and audit. What the admin's forms would write is none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.sessions.models import Session
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase

from controlplane.access.principals import role_of
from inference.contracts.states import UserRole

CONTENT_SECURITY_POLICY = "default-src 'self'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none'"
#: A session's key is as good as a password, and the address of its page would hold it.
NOT_SHOWN: frozenset[type[models.Model]] = frozenset({Session})
#: Columns from which a secret could be guessed or replayed, and texts that make long lists.
_HIDDEN = frozenset({"password", "digest", "previous_digest"})
_COLUMNS = 7


class Window(ModelAdmin):  # type: ignore[type-arg]  # generic for mypy only
    """One table, to look at."""

    list_select_related = True
    list_per_page = 50
    show_full_result_count = False
    actions = None

    def shown(self) -> list[models.Field[Any, Any]]:
        return [field for field in self.model._meta.concrete_fields if field.name not in _HIDDEN]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [field.name for field in self.shown()]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.get_fields(request, obj)

    def get_list_display(self, request: HttpRequest) -> Any:
        short = [field for field in self.shown() if not isinstance(field, models.TextField | models.JSONField)]
        return [field.name for field in short[:_COLUMNS]]

    def get_ordering(self, request: HttpRequest) -> Any:
        return ["-pk"]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.admin_site.has_permission(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.admin_site.has_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class WindowSite(AdminSite):
    """People log in, out and change passwords in the console only, where failures are counted and writes audited."""

    site_title = site_header = "Tandem tables"
    index_title = "To look at; changes are made in the console and by REST"
    site_url = "/"
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        user = request.user
        return user.is_authenticated and user.is_active and role_of(user) == UserRole.ADMIN

    def admin_view(self, view: Callable[..., Any], cacheable: bool = False) -> Any:
        inner = super().admin_view(view, cacheable)

        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            answer: HttpResponseBase = inner(request, *args, **kwargs)
            answer["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
            return answer

        return guarded

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied("Only admins look at tables.")
        return HttpResponseRedirect("/")

    def logout(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return HttpResponseRedirect("/")

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return HttpResponseRedirect("/")

    def password_change_done(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return HttpResponseRedirect("/")


def site_of_every_table() -> WindowSite:
    site = WindowSite(name="admin")
    for model in apps.get_models():
        if model not in NOT_SHOWN:
            site.register(model, Window)
    return site
