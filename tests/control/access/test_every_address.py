"""Who may reach what: every address of the control plane, found by walking its URL tree (F34)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from tests.control.access.people import ADMIN, VIEWER, logged_in, person, token, with_token

WRITES = ("post", "put", "patch", "delete")

#: What answers without knowing who asks, and why.
OPEN = {
    "api/v1/session": "login, and what the login page needs",
    "api/v1/session/oidc": "login",
    "api/v1/session/oidc/callback": "login",
    "api/v1/nodes/join": "shows a join token",
    "api/v1/nodes/hello": "shows the cluster's or the node's secret",
    "api/<path:rest>": "404 whatever it is",
    "healthz": "for whoever watches over the process",
}

#: What a viewer may send: their own password; and questions to a model, which change nothing.
VIEWERS_SEND = {("api/v1/session/password", "put"), ("api/v1/playground/chat", "post")}

#: What is no class of methods: a function that takes one.
ONE_METHOD = {"api/v1/playground/chat": "post"}


@dataclass(frozen=True)
class Address:
    route: str
    view: Any

    @property
    def url(self) -> str:
        url = re.sub(r"<uuid:\w+>", str(uuid4()), self.route)
        url = re.sub(r"<int:\w+>", "1", url)
        return "/" + re.sub(r"<(\w+:)?\w+>", "no-such-name", url)

    @property
    def methods(self) -> list[str]:
        if self.route in ONE_METHOD:
            return [ONE_METHOD[self.route]]
        view = getattr(self.view, "view_class", None) or self.view.cls
        return [method for method in ("get", *WRITES) if hasattr(view, method)]


def walk(patterns: list[Any], prefix: str = "") -> Iterator[Address]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from walk(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield Address(route, pattern.callback)


ADDRESSES = [address for address in walk(get_resolver().url_patterns) if address.route.startswith(("api/", "healthz"))]
CASES = [
    pytest.param(address, method, id=f"{method} {address.route}")
    for address in ADDRESSES
    if address.route not in OPEN
    for method in address.methods
]
WRITE_CASES = [case for case in CASES if case.values[1] in WRITES]

pytestmark = pytest.mark.django_db


def test_the_tree_has_been_walked() -> None:
    assert len(CASES) > 30
    assert set(OPEN) <= {address.route for address in ADDRESSES}
    assert {"api/v1/keys", "api/v1/users/<str:username>", "api/v1/tokens/<uuid:token_id>/rotate"} <= {
        address.route for address in ADDRESSES
    }


@pytest.mark.parametrize(("address", "method"), CASES)
def test_a_stranger_is_told_nothing_and_changes_nothing(address: Address, method: str) -> None:
    for client in (APIClient(), with_token("tdm-of-nobody"), with_token("sk-tandem-of-nobody")):
        answer = client.generic(method.upper(), address.url, "{}", content_type="application/json")
        assert answer.status_code in (401, 403), (address.route, answer.status_code)


@pytest.mark.parametrize(("address", "method"), WRITE_CASES)
def test_a_viewer_changes_nothing_but_their_own_password(address: Address, method: str) -> None:
    if (address.route, method) in VIEWERS_SEND:
        return
    for client in (logged_in(person("ada")), with_token(token(VIEWER).raw)):
        answer = client.generic(method.upper(), address.url, "{}", content_type="application/json")
        assert answer.status_code in (400, 403), (address.route, answer.status_code)
        if answer.status_code == 400:
            # Tokens of viewers with a grant are looked at by the service: a body that is right is refused then.
            assert address.route.startswith("api/v1/tokens"), address.route


@pytest.mark.parametrize(("address", "method"), WRITE_CASES)
def test_a_token_for_some_deployments_writes_nothing_beside_them(address: Address, method: str) -> None:
    """Whose deployment something is has to be looked up first, and nothing is there: hence 404."""
    if (address.route, method) in VIEWERS_SEND:
        return
    client = with_token(token(ADMIN, only=["chat"]).raw)
    answer = client.generic(method.upper(), address.url, "{}", content_type="application/json")

    about_a_deployment = re.search(r"pools/|workers/|deployments", address.route)
    allowed = (400, 403, 404) if about_a_deployment else (403,)
    assert answer.status_code in allowed or address.route.startswith("api/v1/tokens"), (address, answer.status_code)
