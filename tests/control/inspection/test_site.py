"""Claims about Django's admin: it shows every table to admins, and changes none."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import models
from django.test import Client, RequestFactory
from django.urls import reverse

from controlplane.access.models import ServingKey
from controlplane.core import clock
from controlplane.inspection.site import NOT_SHOWN, site_of_every_table
from inference.contracts.states import UserRole
from tests.control.access.people import ADMIN, OPERATOR, VIEWER, person

pytestmark = pytest.mark.django_db

SITE = site_of_every_table()
MODELS = [model for model in apps.get_models() if model not in NOT_SHOWN]


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def admin() -> Client:
    return browser(person("ada", ADMIN))


def page(model: type[models.Model], what: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{what}", args=args)


def test_every_model_is_there_but_sessions_whose_keys_are_passwords() -> None:
    assert {model for model in apps.get_models() if not SITE.is_registered(model)} == NOT_SHOWN
    assert len(MODELS) > 25


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_nobody_adds_changes_or_deletes_a_row_there(admin: Client, model: type[models.Model]) -> None:
    request = RequestFactory().get("/admin/")
    request.user = User.objects.create_superuser("root")
    window = SITE.get_model_admin(model)

    assert window.has_view_permission(request)
    assert not window.has_add_permission(request)
    assert not window.has_change_permission(request)
    assert not window.has_delete_permission(request)
    assert admin.get(page(model, "changelist")).status_code == 200
    assert admin.post(page(model, "add"), {}).status_code == 403


def test_a_row_is_shown_without_what_a_secret_could_be_guessed_from(admin: Client) -> None:
    key = ServingKey.objects.create(
        name="first", prefix="sk-tandem-ab", digest="d" * 64, created_by="ada", created_at=clock.now()
    )
    user = User.objects.get(username="ada")

    shown = admin.get(page(ServingKey, "change", key.pk)).content.decode()
    assert "sk-tandem-ab" in shown
    assert "d" * 64 not in shown
    assert user.password not in admin.get(page(User, "change", user.pk)).content.decode()
    for what in ("change", "delete"):
        assert admin.post(page(ServingKey, what, key.pk), {"name": "x", "post": "yes"}).status_code == 403
    key.refresh_from_db()
    assert key.name == "first"


@pytest.mark.parametrize("role", [VIEWER, OPERATOR])
def test_only_admins_see_it(role: UserRole) -> None:
    client = browser(person("bob", role))

    assert client.get("/admin/", follow=True).status_code == 403
    assert client.get(page(User, "changelist"), follow=True).status_code == 403


def test_people_log_in_and_change_passwords_in_the_console_only(admin: Client) -> None:
    """There, failures are counted and changes audited."""
    stranger = Client()
    login = stranger.post("/admin/login/", {"username": "ada", "password": "correct horse battery"})

    assert (login.status_code, login["Location"]) == (302, "/")
    assert "sessionid" not in stranger.cookies
    assert stranger.get("/admin/")["Location"].startswith("/admin/login/")
    assert admin.post("/admin/password_change/", {"new_password1": "x"})["Location"] == "/"


def test_its_pages_run_no_script_of_others(admin: Client) -> None:
    answer = admin.get("/admin/")

    assert answer.status_code == 200
    assert answer["Content-Security-Policy"].startswith("default-src 'self'")
    assert answer["X-Frame-Options"] == "DENY"
