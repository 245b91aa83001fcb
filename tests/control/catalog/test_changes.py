from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.test import APIClient

from controlplane.audit.models import AuditEntry
from controlplane.catalog import services
from controlplane.catalog.fetching import weights_fetch
from controlplane.catalog.learning import Told, models_learn
from controlplane.catalog.models import Model
from controlplane.fleet.models import NodeWeights
from controlplane.pools.models import Deployment, Revision
from inference.contracts.console import ModelRemoved
from inference.contracts.models import ModelShape
from inference.contracts.reports import WeightsReport
from inference.contracts.states import FetchState
from tests.control.catalog.nodes import PATH, Nodes
from tests.control.conftest import Outbox
from tests.inference.planning.model import known_models as known

MODELS = "/api/v1/models"

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def used_by(model: Model, name: str) -> None:
    deployment = Deployment.objects.create(name=name, created_at=timezone.now())
    Revision.objects.create(deployment=deployment, number=1, model=model, created_at=timezone.now())


# -- what is known of a model


def test_a_directory_that_is_seen_here_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(known.LLAMA_3_1_8B))
    model = services.model_create(name="m", path=str(tmp_path))

    assert model.shape_from == "its files here"
    assert model.known_shape is not None
    assert model.known_shape.parameters == 8_030_261_248


def test_the_content_of_a_configuration_can_be_given(api: APIClient) -> None:
    made = api.post(MODELS, {"name": "m", "path": PATH, "config": known.GEMMA_3_1B}, format="json").json()

    assert (made["source"], made["shape_from"], made["shape"]["architecture"]) == ("hub", "ada", "gemma3_text")
    assert made["kv_bytes_per_token"] == 26 * 1024
    # 4 of 26 layers keep all 32768 tokens, the others 512 of them
    assert made["kv_bytes_of_context"] == 1024 * (4 * 32_768 + 22 * 512)


def test_values_can_be_given_for_a_kind_that_nobody_knows(api: APIClient) -> None:
    kv = {"layers": 10, "heads": 2, "head_elements": 256}
    shape = {"architecture": "hyena", "parameters": 1000, "context_length": 100, "kv": [kv]}
    made = api.post(MODELS, {"name": "m", "path": PATH, "shape": shape}, format="json").json()

    assert (made["shape"]["parameters"], made["kv_bytes_per_token"]) == (1000, 10 * 2 * 256 * 2)
    assert made["shape"]["engines"] is None
    assert [one["name"] for one in api.get(f"{MODELS}?architecture=hyena").json()["items"]] == ["m"]
    assert api.get(f"{MODELS}?architecture=llama").json()["items"] == []


def test_an_unknown_architecture_is_shown_as_unknown(api: APIClient) -> None:
    made = api.post(MODELS, {"name": "m", "path": PATH, "config": {"model_type": "hyena"}}, format="json").json()

    assert (made["shape"]["architecture"], made["shape"]["kv"], made["kv_bytes_per_token"]) == ("hyena", None, None)


def test_nodes_that_have_the_files_tell_of_them(nodes: Nodes) -> None:
    services.model_create(name="m", path=PATH)
    services.model_create(name="other", path=PATH, revision="v2")
    shape = ModelShape(architecture="llama", parameters=7)
    nodes.report(
        nodes.add("a"), WeightsReport(path=PATH, revision="", state=FetchState.PRESENT, size_bytes=1, shape=shape)
    )
    nodes.outbox.events.clear()
    with nodes.committing():
        models_learn()

    assert Model.objects.get(name="m").known_shape == shape
    assert Model.objects.get(name="other").known_shape is None
    assert [event.model.name for event in nodes.outbox.events] == ["m"]  # type: ignore[union-attr]
    assert services.model_create(name="later", path=PATH).shape_from == "node a"


def test_what_a_person_said_is_not_overwritten_by_nodes(nodes: Nodes) -> None:
    services.model_create(name="m", path=PATH, told=Told(shape=ModelShape(parameters=5)))
    shape = ModelShape(parameters=7)
    nodes.report(nodes.add("a"), WeightsReport(path=PATH, revision="", state=FetchState.PRESENT, shape=shape))
    models_learn()

    assert Model.objects.get().known_shape == ModelShape(parameters=5)


def test_a_shape_that_can_not_be_is_not_believed(nodes: Nodes) -> None:
    services.model_create(name="m", path=PATH)
    shape = ModelShape(parameters=-7)
    nodes.report(nodes.add("a"), WeightsReport(path=PATH, revision="", state=FetchState.PRESENT, shape=shape))
    models_learn()

    assert Model.objects.get().known_shape is None


# -- changes


def test_what_is_given_changes_and_the_rest_stays(api: APIClient) -> None:
    services.model_create(name="m", path=PATH, description="small")
    changed = api.patch(f"{MODELS}/m", {"licence": "Apache-2.0", "revision": "v1"}, format="json").json()

    assert (changed["licence"], changed["revision"], changed["description"]) == ("Apache-2.0", "v1", "small")
    assert changed == api.get(f"{MODELS}/m").json()
    entry = AuditEntry.objects.get(action="model.change")
    assert (entry.before["revision"], entry.after["revision"], entry.actor) == ("", "v1", "ada")


def test_a_change_may_name_the_version_it_saw(api: APIClient) -> None:
    services.model_create(name="m", path=PATH)
    seen = api.get(f"{MODELS}/m")["ETag"]
    assert api.patch(f"{MODELS}/m", {"licence": "MIT"}, format="json", headers={"If-Match": seen}).status_code == 200

    stale = api.patch(f"{MODELS}/m", {"licence": "BSD"}, format="json", headers={"If-Match": seen})
    assert (stale.status_code, stale.json()["current"]["licence"]) == (412, "MIT")
    assert api.delete(f"{MODELS}/m", headers={"If-Match": seen}).status_code == 412


def test_null_forgets_what_is_known_and_looks_again(api: APIClient, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(known.SMOLLM2_135M))
    services.model_create(name="m", path=str(tmp_path), told=Told(shape=ModelShape(parameters=5)))

    changed = api.patch(f"{MODELS}/m", {"shape": None}, format="json").json()
    assert (changed["shape"]["parameters"], changed["shape_from"]) == (134_515_008, "its files here")


def test_nothing_changed_is_not_told_or_recorded(
    api: APIClient, outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    services.model_create(name="m", path=PATH)
    with django_capture_on_commit_callbacks(execute=True):
        assert api.patch(f"{MODELS}/m", {"description": ""}, format="json").status_code == 200

    assert outbox.events == []
    assert not AuditEntry.objects.filter(action="model.change").exists()


@pytest.mark.parametrize("change", [{"path": "org/other"}, {"revision": "v2"}])
def test_what_deployments_run_stays_what_it_is(api: APIClient, change: dict[str, str]) -> None:
    used_by(services.model_create(name="m", path=PATH), "chat")
    refused = api.patch(f"{MODELS}/m", change, format="json")

    assert (refused.status_code, refused.json()["code"]) == (409, "model_used")
    assert "used by the deployment chat" in refused.json()["detail"]
    assert api.patch(f"{MODELS}/m", {"licence": "MIT"}, format="json").status_code == 200


def test_another_path_is_another_model_to_be_known_anew(api: APIClient) -> None:
    services.model_create(name="m", path=PATH, told=Told(shape=ModelShape(parameters=5)))

    changed = api.patch(f"{MODELS}/m", {"path": "https://store/m.tar"}, format="json").json()
    assert (changed["source"], changed["shape"], changed["shape_from"]) == ("web", None, "")


def test_credentials_of_a_signed_address_are_not_shown(api: APIClient) -> None:
    made = api.post(MODELS, {"name": "m", "path": "https://store/m.tar?X-Signature=s3cret"}, format="json")

    assert made.json()["path"] == "https://store/m.tar?…"
    assert "s3cret" not in json.dumps(list(AuditEntry.objects.values_list("after", flat=True)))
    assert Model.objects.get().path.endswith("s3cret")


# -- deleting


def test_a_deleted_model_is_gone_and_consoles_hear_of_it(
    api: APIClient, outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    services.model_create(name="m", path=PATH)
    with django_capture_on_commit_callbacks(execute=True):
        assert api.delete(f"{MODELS}/m").status_code == 204

    assert outbox.events == [ModelRemoved(name="m")]
    assert api.get(f"{MODELS}/m").status_code == 404
    assert AuditEntry.objects.get(action="model.delete").before["path"] == PATH


def test_a_model_in_use_is_not_deleted_and_the_users_are_named(api: APIClient) -> None:
    model = services.model_create(name="m", path=PATH)
    for name in ("chat", "code"):
        used_by(model, name)
    refused = api.delete(f"{MODELS}/m")

    assert refused.status_code == 409
    assert refused.json()["current"] == {"deployments": ["chat", "code"]}
    assert "m is used by the deployments chat, code." in refused.json()["detail"]


def test_a_model_that_is_being_fetched_is_not_deleted(api: APIClient, nodes: Nodes) -> None:
    services.model_create(name="m", path=PATH)
    weights_fetch("m", [nodes.add("a")], by="ada")

    assert api.delete(f"{MODELS}/m").json()["code"] == "operation_conflict"


def test_nodes_need_not_keep_what_is_deleted_unless_it_has_another_name(api: APIClient, nodes: Nodes) -> None:
    a = nodes.add("a")
    for name in ("m", "same"):
        services.model_create(name=name, path=PATH)
    with nodes.committing():
        weights_fetch("m", [a], by="ada")
    nodes.report(a, WeightsReport(path=PATH, revision="", state=FetchState.PRESENT))
    nodes.sweep()

    api.delete(f"{MODELS}/m")
    assert NodeWeights.objects.get().wanted
    api.delete(f"{MODELS}/same")
    assert not NodeWeights.objects.get().wanted
