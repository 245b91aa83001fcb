from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from controlplane.audit.models import AuditEntry
from controlplane.catalog import services
from controlplane.catalog.fetching import weights_fetch
from controlplane.catalog.models import Model
from controlplane.core.errors import Conflict, ControlError, Invalid, NotFound
from controlplane.fleet.models import Node, NodeWeights
from controlplane.fleet.services import node_retire
from controlplane.operations.models import Operation
from controlplane.operations.services import OnConflict, operation_cancel, operation_retry
from inference.contracts.models import ModelShape
from inference.contracts.reports import WeightsReport
from inference.contracts.specs import WeightsSpec
from inference.contracts.states import FetchState, NodePhase
from tests.control.catalog.nodes import GB, PATH, Nodes

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture(autouse=True)
def model(nodes: Nodes) -> Model:
    return services.model_create(name="m", path=PATH)


def fetch(nodes: Nodes, *node_ids: UUID, **more: object) -> Operation:
    with nodes.committing():
        return weights_fetch("m", node_ids, by="ada", **more)  # type: ignore[arg-type]


def weights(state: FetchState, **more: object) -> WeightsReport:
    return WeightsReport(**{"path": PATH, "revision": "", "state": state, **more})  # type: ignore[arg-type]


def outcome(operation: Operation) -> tuple[str, str]:
    operation.refresh_from_db()
    return operation.state, operation.outcome


def test_nodes_are_told_to_fetch_and_the_operation_follows_them(nodes: Nodes) -> None:
    a, b = nodes.add("a"), nodes.add("b")
    operation = fetch(nodes, a, b)
    assert nodes.wanted(a) == nodes.wanted(b) == (WeightsSpec(path=PATH),)

    nodes.report(a, weights(FetchState.FETCHING, size_bytes=4 * GB, fetched_bytes=GB))
    nodes.sweep()
    assert nodes.steps(operation) == [("a: 1.00 GB of 4.00 GB", "running"), ("b: waiting", "running")]
    operation.refresh_from_db()
    assert operation.progress == 0.125

    nodes.report(a, weights(FetchState.PRESENT, size_bytes=4 * GB))
    nodes.report(b, weights(FetchState.PRESENT, size_bytes=4 * GB))
    nodes.sweep()
    assert nodes.steps(operation) == [("a: 4.00 GB", "done"), ("b: 4.00 GB", "done")]
    assert outcome(operation) == ("succeeded", "m is on 2 nodes.")


def test_what_the_files_say_is_known_from_then_on(nodes: Nodes, model: Model) -> None:
    a = nodes.add("a")
    fetch(nodes, a)
    nodes.report(a, weights(FetchState.PRESENT, shape=ModelShape(architecture="llama", parameters=135)))
    nodes.sweep()

    model.refresh_from_db()
    assert model.known_shape == ModelShape(architecture="llama", parameters=135)
    assert model.shape_from == "node a"


def test_one_node_that_fails_fails_the_operation_and_says_why(nodes: Nodes) -> None:
    a, b = nodes.add("a"), nodes.add("b")
    operation = fetch(nodes, a, b)
    nodes.report(a, weights(FetchState.PRESENT))
    nodes.report(b, weights(FetchState.FAILED, reason="the hub has no model org/model"))
    nodes.sweep()

    assert outcome(operation) == ("failed", "1 of 2 nodes did not get it: b: the hub has no model org/model")


def test_trying_again_raises_the_attempt_of_what_failed_and_of_nothing_else(nodes: Nodes) -> None:
    a, b = nodes.add("a"), nodes.add("b")
    operation = fetch(nodes, a, b)
    nodes.report(a, weights(FetchState.PRESENT))
    nodes.report(b, weights(FetchState.FAILED, reason="disk full"))
    nodes.sweep()
    with nodes.committing():
        again = operation_retry(operation.pk, by="ada")

    assert nodes.wanted(a) == (WeightsSpec(path=PATH, attempt=0),)
    assert nodes.wanted(b) == (WeightsSpec(path=PATH, attempt=1),)
    nodes.report(b, weights(FetchState.PRESENT))
    nodes.sweep()
    assert outcome(again)[0] == "succeeded"


def test_a_failure_from_before_the_node_took_its_spec_does_not_count(nodes: Nodes) -> None:
    a = nodes.add("a")
    operation = fetch(nodes, a)
    nodes.report(a, weights(FetchState.FAILED, reason="disk full"))
    nodes.sweep()
    with nodes.committing():
        again = operation_retry(operation.pk, by="ada")

    nodes.report(a, weights(FetchState.FAILED, reason="disk full"), applied=False)
    nodes.sweep()
    assert outcome(again)[0] == "running"

    nodes.report(a, weights(FetchState.PRESENT))
    nodes.sweep()
    assert outcome(again)[0] == "succeeded"


def test_cancelling_lets_go_of_what_is_not_there_yet(nodes: Nodes) -> None:
    a, b = nodes.add("a"), nodes.add("b")
    operation = fetch(nodes, a, b)
    nodes.report(a, weights(FetchState.PRESENT))
    nodes.report(b, weights(FetchState.FETCHING, size_bytes=GB, fetched_bytes=1))
    with nodes.committing():
        operation_cancel(operation.pk, by="ada")

    assert nodes.wanted(a) == (WeightsSpec(path=PATH),)
    assert nodes.wanted(b) == ()
    nodes.report(b)
    assert [row.node_id for row in NodeWeights.objects.all()] == [a]


def test_cancelling_leaves_what_was_wanted_before(nodes: Nodes) -> None:
    a, b = nodes.add("a"), nodes.add("b")
    first = fetch(nodes, a)
    nodes.report(a, weights(FetchState.FAILED, reason="disk full"))
    nodes.sweep()
    assert outcome(first)[0] == "failed"
    second = fetch(nodes, a, b)
    with nodes.committing():
        operation_cancel(second.pk, by="ada")

    assert (nodes.wanted(a), nodes.wanted(b)) == ((WeightsSpec(path=PATH, attempt=1),), ())


def test_a_silent_node_is_waited_for_and_a_retired_one_is_not(nodes: Nodes) -> None:
    a = nodes.add("a")
    operation = fetch(nodes, a)
    Node.objects.update(phase=NodePhase.LOST)
    nodes.sweep()
    assert nodes.steps(operation) == [("a: silent", "running")]

    with nodes.committing():
        node_retire(a)
    nodes.sweep()
    assert outcome(operation) == ("failed", "1 of 1 node did not get it: a: it was retired")


def test_it_does_not_last_for_ever(nodes: Nodes, settings: Settings) -> None:
    settings.FETCH_DEADLINE_S = 8.0
    operation = fetch(nodes, nodes.add("a"))
    for _ in range(4):
        nodes.sweep()

    assert outcome(operation) == ("failed", "Not done after 8 s. What was asked for stays wanted.")


def test_hours_are_fine_where_other_operations_have_minutes(nodes: Nodes, settings: Settings) -> None:
    settings.OPERATION_DEADLINE_S = 1.0
    operation = fetch(nodes, nodes.add("a"))
    for _ in range(4):
        nodes.sweep()

    assert outcome(operation)[0] == "running"


def test_another_revision_can_be_fetched(nodes: Nodes, api: APIClient) -> None:
    a = nodes.add("a")
    fetch(nodes, a, revision="v2")
    assert nodes.wanted(a) == (WeightsSpec(path=PATH, revision="v2"),)

    nodes.report(a, weights(FetchState.PRESENT, revision="v2", size_bytes=7))
    [listed] = api.get("/api/v1/models/m/weights").json()["items"]
    assert (listed["node_name"], listed["revision"], listed["state"], listed["size_bytes"], listed["wanted"]) == (
        "a",
        "v2",
        "present",
        7,
        True,
    )
    assert api.get("/api/v1/models/m/weights?state=failed").json()["items"] == []


def test_over_rest(nodes: Nodes, api: APIClient) -> None:
    a = nodes.add("a")
    asked = api.post("/api/v1/models/m/fetch", {"nodes": [str(a)], "reason": "tonight"}, format="json")

    assert asked.status_code == 202
    operation = asked.json()["operation"]
    assert (operation["kind"], operation["title"], operation["target"]) == ("fetch_weights", "Fetch m to a", "m")
    assert (operation["cancellable"], operation["reason"]) == (True, "tonight")
    [entry] = AuditEntry.objects.filter(action="model.fetch")
    assert entry.after == {"nodes": ["a"], "revision": "", "operation": operation["id"]}


def test_a_trial_changes_nothing(nodes: Nodes, api: APIClient) -> None:
    a = nodes.add("a")
    asked = api.post("/api/v1/models/m/fetch?dry_run=true", {"nodes": [str(a)]}, format="json")

    assert asked.status_code == 202
    assert not NodeWeights.objects.exists()
    assert not Operation.objects.exists()


def test_one_fetch_of_a_model_runs_and_the_next_waits_if_asked(nodes: Nodes) -> None:
    a, b = nodes.add("a"), nodes.add("b")
    first = fetch(nodes, a)
    with pytest.raises(Conflict, match="Fetch m to a"):
        fetch(nodes, b)
    second = fetch(nodes, b, on_conflict=OnConflict.QUEUE)
    assert outcome(second)[0] == "queued"

    nodes.report(a, weights(FetchState.PRESENT))
    nodes.sweep()
    assert (outcome(first)[0], outcome(second)[0]) == ("succeeded", "running")


def test_what_can_not_be_fetched_is_refused(nodes: Nodes) -> None:
    a = nodes.add("a")

    def refused(kind: type[ControlError], said: str, *node_ids: UUID, **more: object) -> None:
        with pytest.raises(kind, match=said):
            fetch(nodes, *node_ids, **more)

    refused(Invalid, "Name 1 to 1000 nodes")
    refused(NotFound, "no node", uuid4())
    refused(Invalid, "A revision is", a, revision="..")
    Node.objects.update(phase=NodePhase.LOST)
    refused(Conflict, "a does not report", a)
    assert not Operation.objects.exists()


def test_a_look_costs_the_same_however_many_nodes_fetch(
    nodes: Nodes, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    fetch(nodes, *(nodes.add(f"n{number}") for number in range(6)))
    nodes.sweep()

    with django_assert_max_num_queries(30):
        nodes.sweep()
