"""Every page of every list is made with as many queries as any other, however many rows it has and however much hangs
on each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings
from rest_framework.test import APIClient

from controlplane.access.models import LoginFailure
from controlplane.access.services import key_create
from controlplane.access.tokens import token_create
from controlplane.access.users import user_create
from controlplane.catalog.models import Model
from controlplane.console import snapshot
from controlplane.core.principal import SYSTEM
from controlplane.fleet.joining import join_token_create
from controlplane.fleet.models import Link, Node, NodeWeights
from controlplane.pools.models import Deployment, Revision
from inference.contracts.states import FetchState, UserRole
from tests.control.conftest import Clock, Outbox
from tests.control.pools.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

#: What stands for the parameters in addresses of lists.
NAMED = {"deployments/<name:name>": "deployments/m", "models/<str:name>": "models/tiny"}


def addresses_of_lists(resolver: URLResolver, before: str = "") -> Iterator[str]:
    for each in resolver.url_patterns:
        address = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from addresses_of_lists(each, address)
        elif isinstance(each, URLPattern) and getattr(getattr(each.callback, "cls", None), "listing", None):
            yield address


LISTS = sorted(addresses_of_lists(get_resolver("controlplane.config.urls")))


class Growing:
    """A control plane with more and more of everything that there are lists of."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.size = 0
        world.node("n0", slots=40)
        world.deploy(prefill=1, decode=1)
        world.come_up()

    def grow(self, by: int) -> None:
        for _ in range(by):
            self.size += 1
            self._grow(f"n{self.size}")
        self.world.come_up()

    def _grow(self, name: str) -> None:
        world = self.world
        world.node(name, slots=2)
        node, other = Node.objects.get(name=name), Node.objects.get(name="n0")
        Link.objects.create(source=node, target=other, bytes_per_s=1e9, measured_at=world.now())
        NodeWeights.objects.create(node=node, path="/models/tiny", wanted=True, state=FetchState.PRESENT)
        Model.objects.create(name=f"model-{name}", path=f"/models/{name}", created_at=world.now.advance(1))
        world.deploy(name=f"m-{name}", prefill=1, decode=1)
        world.resize("decode", world.pool("decode").replicas + 1)
        deployment = Deployment.objects.get(name="m")
        Revision.objects.create(
            deployment=deployment, number=self.size + 1, model=Model.objects.earliest("pk"), created_at=world.now()
        )
        join_token_create(created_by="ada", note=name)
        key_create(name=f"key-{name}", created_by="ada")
        user: User = user_create(username=name, password="correct horse battery", role=UserRole.VIEWER)
        token_create(by=SYSTEM, owner=user, name=f"token-{name}", role=UserRole.VIEWER)
        LoginFailure.objects.create(name=name, address=f"10.0.0.{self.size}", at=world.now())


@pytest.fixture
def growing(
    api: APIClient,
    now: Clock,
    outbox: Outbox,
    settings: Settings,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> Growing:
    settings.LOGIN_FAILURES_PER_NAME = settings.LOGIN_FAILURES_PER_ADDRESS = 1
    return Growing(World(now, outbox, django_capture_on_commit_callbacks))


def page(api: APIClient, address: str) -> tuple[int, int]:
    """Rows of the first page, and queries that it took."""
    for pattern, named in NAMED.items():
        address = address.replace(pattern, named)
    with CaptureQueriesContext(connection) as caught:
        answer: Any = api.get(f"/{address}")
    assert answer.status_code == 200, answer.content
    return len(answer.json()["items"]), len(caught)


def test_queries_of_a_page_do_not_depend_on_how_many_rows_it_has(growing: Growing, api: APIClient) -> None:
    growing.grow(1)
    few = {address: page(api, address) for address in LISTS}
    growing.grow(3)
    many = {address: page(api, address) for address in LISTS}

    assert [address for address in LISTS if many[address][0] < few[address][0] + 3] == [], "a list that did not grow"
    costs = {address: (few[address][1], many[address][1]) for address in LISTS}
    assert {address: cost for address, cost in costs.items() if cost[0] != cost[1]} == {}


def test_queries_of_a_snapshot_do_not_depend_on_what_there_is(growing: Growing) -> None:
    costs = []
    for by in (1, 3):
        growing.grow(by)
        with CaptureQueriesContext(connection) as caught:
            snapshot.read("0-0", ())
        costs.append(len(caught))
    assert costs[0] == costs[1]


def test_every_list_is_looked_at() -> None:
    assert {"api/v1/nodes", "api/v1/operations", "api/v1/deployments", "api/v1/audit"} <= set(LISTS)
