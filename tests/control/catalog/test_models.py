from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.test import APIClient

from controlplane.catalog import selectors, services
from controlplane.catalog.models import Model
from controlplane.core.errors import Conflict, NotFound
from inference.contracts.console import ModelChanged
from tests.control.conftest import Clock, Outbox
from tests.control.races import at_once

MODELS = "/api/v1/models"

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def test_a_model_is_added_and_listed(api: APIClient, now: Clock) -> None:
    wanted = {"name": "smollm2-135m", "path": "/models/smollm2", "description": "small"}
    made = api.post(MODELS, wanted, format="json")

    assert made.status_code == 201
    assert made.json() == wanted | {
        "created_at": "2026-03-01T12:00:00.000Z",
        "source": "directory",
        "revision": "",
        "licence": "",
        "shape": None,
        "shape_from": "",
        "kv_bytes_per_token": None,
        "kv_bytes_of_context": None,
    }
    assert api.get(MODELS).json() == {"items": [made.json()], "next": None}


def test_consoles_hear_of_a_new_model(
    outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        services.model_create(name="m", path="org/model")

    [event] = outbox.events
    assert isinstance(event, ModelChanged)
    assert (event.model.name, event.model.path) == ("m", "org/model")


def test_a_path_that_only_the_nodes_can_see_is_taken(api: APIClient) -> None:
    answer = api.post(MODELS, {"name": "m", "path": "/only/on/the/nodes"}, format="json")

    assert answer.status_code == 201


@pytest.mark.parametrize("name", ["a", "Qwen3-8B", "llama-3.1_instruct.v2", "9b", "x" * 100])
def test_names_as_people_give_them_are_fine(name: str) -> None:
    assert services.model_create(name=name, path="p").name == name


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"name": "", "path": "p"}, "name"),
        ({"name": "-m", "path": "p"}, "name"),
        ({"name": "two words", "path": "p"}, "name"),
        ({"name": "org/model", "path": "p"}, "name"),
        ({"name": "모델", "path": "p"}, "name"),
        ({"name": "m\n", "path": "p"}, "name"),
        ({"name": "x" * 101, "path": "p"}, "name"),
        ({"name": "m", "path": ""}, "path"),
        ({"name": "m", "path": "  "}, "path"),
        ({"name": "m", "path": "p\0q"}, "path"),
        ({"name": "m", "path": "x" * 501}, "path"),
        ({"name": "m", "path": "p", "description": "x" * 1001}, "description"),
        ({"name": "m", "path": "p", "description": "\0"}, "description"),
        ({"name": "m"}, "path"),
        ({"name": "m", "path": 7}, "path"),
        ({"name": "m", "path": "-p"}, "path"),
        ({"name": "m", "path": "s3://bucket/model"}, "path"),
        ({"name": "m", "path": "https:///model.tar"}, "path"),
        ({"name": "m", "path": "https://me:secret@host/model.tar"}, "path"),
        ({"name": "m", "path": "http://[::1/model"}, "path"),
        ({"name": "m", "path": "p", "revision": "../main"}, "revision"),
        ({"name": "m", "path": "p", "revision": "-x"}, "revision"),
        ({"name": "m", "path": "p", "licence": "x" * 101}, "licence"),
        ({"name": "m", "path": "p", "license": "MIT"}, "license"),
        ({"name": "m", "path": "p", "config": []}, "config"),
        ({"name": "m", "path": "p", "config": {"num_hidden_layers": "many"}}, "config"),
        ({"name": "m", "path": "p", "config": {}, "shape": {}}, "config"),
        ({"name": "m", "path": "p", "shape": {"parameters": 0}}, "shape"),
        ({"name": "m", "path": "p", "shape": {"paramters": 1}}, "shape.paramters"),
        ({"name": "m", "path": "p", "shape": {"kv": [{"layers": 1}]}}, "shape.kv[0].heads"),
        (
            {"name": "m", "path": "p", "shape": {"kv": [{"layers": 1, "heads": 1, "head_elements": 1, "windows": 2}]}},
            "shape.kv[0].windows",
        ),
    ],
)
def test_a_refused_model_names_the_field_and_leaves_nothing(
    api: APIClient, wanted: dict[str, object], field: str
) -> None:
    answer = api.post(MODELS, wanted, format="json")

    assert answer.status_code == 400
    assert answer.json()["field"] == field
    assert not Model.objects.exists()


def test_a_name_is_taken_once(api: APIClient) -> None:
    services.model_create(name="m", path="p")
    answer = api.post(MODELS, {"name": "m", "path": "q"}, format="json")

    assert answer.status_code == 409
    assert (answer.json()["code"], answer.json()["field"]) == ("name_taken", "name")
    assert selectors.model_get("m").path == "p"


@pytest.mark.django_db(transaction=True)
def test_of_two_who_take_a_name_at_once_one_gets_it(outbox: Outbox) -> None:
    made = at_once(*(lambda path=path: services.model_create(name="m", path=path) for path in ("p", "q")))

    assert sorted(type(result) for result in made if isinstance(result, Conflict)) == [Conflict]
    assert Model.objects.count() == len(outbox.events) == 1


def test_an_unknown_model_is_not_found() -> None:
    with pytest.raises(NotFound, match="There is no model 'm'"):
        selectors.model_get("m")


def test_ensure_model_adds_once_and_follows_the_path(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("ensure_model", "--name", "m", "--path", "/old", "--description", "small")
    call_command("ensure_model", "--name", "m", "--path", "/new")

    model = Model.objects.get()
    assert (model.path, model.description) == ("/new", "small")
    assert "m at /new" in capsys.readouterr().out


def test_ensuring_what_is_so_already_tells_nobody(
    outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    services.model_ensure(name="m", path="/p")
    with django_capture_on_commit_callbacks(execute=True):
        services.model_ensure(name="m", path="/p")

    assert outbox.events == []


def test_ensure_model_refuses_in_one_sentence() -> None:
    with pytest.raises(CommandError, match="A model's name has"):
        call_command("ensure_model", "--name", "two words", "--path", "/p")
