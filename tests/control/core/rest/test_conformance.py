"""Every operation of the described API is called with generated requests, right ones and wrong ones: nothing is our own
fault (5xx), and every answer is one that is described."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.test import APIClient
from schemathesis import APIOperation, GenerationMode
from schemathesis.specs.openapi import checks

from controlplane.access.tokens import token_create
from controlplane.core.principal import SYSTEM
from controlplane.fleet.models import Device, Node
from controlplane.operations.models import Operation
from controlplane.pools.models import Pool, Worker
from inference.contracts.states import UserRole
from tests.control.conftest import Clock, Outbox
from tests.control.pools.world import World

#: Requests of each operation. All together have to stay well below a minute.
EXAMPLES = 10

CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]

schema = schemathesis.openapi.from_dict(SchemaGenerator().get_schema(request=None, public=True))
schema.app = get_wsgi_application()
# The playground is a proxy: what it answers is the router's, and here there is none.
OPERATIONS = [found.ok() for found in schema.exclude(path="/api/v1/playground/chat").get_all_operations()]


@pytest.fixture
def seeded(
    api: APIClient, now: Clock, outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> dict[str, Any]:
    """Path parameters for which there is something: a deployment that serves, its node, an operation, a key, a user."""
    world = World(now, outbox, django_capture_on_commit_callbacks)
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    return {
        "deployments/{name}": "m",
        "pool_id": str(Pool.objects.earliest("pk").pk),
        "worker_id": str(Worker.objects.earliest("pk").pk),
        "node_id": str(Node.objects.get().pk),
        "device_id": Device.objects.earliest("pk").pk,
        "operation_id": str(Operation.objects.earliest("pk").pk),
        "key_id": api.post("/api/v1/keys", {"name": "bot"}, format="json").json()["id"],
        "username": "ada",
    }


@pytest.fixture
def authorization(db: None) -> Iterator[str]:
    """Of an administrator. All requests of one test share its transaction, so the connection has to stay."""
    issued = token_create(by=SYSTEM, owner=None, name="conformance", role=UserRole.ADMIN)
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield f"Bearer {issued.raw}"
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_it_answers_as_described(operation: APIOperation, seeded: dict[str, Any], authorization: str) -> None:
    @seed(2026)
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(data=st.data(), mode=st.sampled_from(GenerationMode), existing=st.booleans())
    def answers_as_described(data: st.DataObject, mode: GenerationMode, existing: bool) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        if existing:
            for name, value in seeded.items():
                if name in operation.path or f"{{{name}}}" in operation.path:
                    case.path_parameters[name.rpartition("{")[2].rstrip("}")] = value
        case.call_and_validate(headers={"Authorization": authorization}, checks=CHECKS)

    answers_as_described()
