"""Measurements of the network between nodes: asked for, taken in turns, ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import permutations
from uuid import UUID

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings
from rest_framework.test import APIClient

from controlplane.fleet.desired import node_retire
from controlplane.fleet.hooks import hooks
from controlplane.fleet.links import links_advance, links_measure, links_needed, links_wanted
from controlplane.fleet.models import Link, LinkMeasurement, Node
from controlplane.fleet.reports import node_record_report
from controlplane.operations.models import Operation
from controlplane.operations.services import operations_advance
from inference.contracts.reports import Address, LinkReport
from inference.contracts.specs import LinkSpec
from inference.contracts.states import NodePhase, OperationState
from tests.control.conftest import Clock
from tests.control.fleet.messages import joined, report

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

DEADLINE_S = 30.0


class Network:
    """Nodes that measure as their specs say. deaf: those that say nothing of it."""

    def __init__(self, now: Clock, commit: DjangoCaptureOnCommitCallbacks) -> None:
        self.now, self.commit = now, commit
        self.nodes = [joined(hostname=name) for name in ("alpha", "beta", "gamma", "delta")]
        self.sequence = 0
        self.renewed: list[UUID] = []
        self.deaf: set[str] = set()
        self.errors: dict[str, str] = {}
        self.most_at_once = 0
        self.report()

    def renew(self, node_ids: Collection[UUID]) -> None:
        self.renewed += node_ids

    def spec(self, node: Node) -> tuple[LinkSpec, ...]:
        return links_wanted([node.pk]).get(node.pk, ())

    def report(self) -> None:
        """Every node reports once what it has to say of what its spec asks for."""
        self.sequence += 1
        self.most_at_once = max(self.most_at_once, LinkMeasurement.objects.filter(started_at__isnull=False).count())
        for number, node in enumerate(self.nodes):
            said = tuple(self.answer(node, number, spec) for spec in self.spec(node) if node.name not in self.deaf)
            with self.commit(execute=True):
                node_record_report(report(node, sequence=self.sequence, links=said), received_at=self.now())

    def answer(self, node: Node, number: int, spec: LinkSpec) -> LinkReport:
        if node.name in self.errors:
            return LinkReport(measurement_id=spec.measurement_id, error=self.errors[node.name])
        if spec.listen:
            address = Address(host=f"10.0.0.{number}", port=9000)
            return LinkReport(measurement_id=spec.measurement_id, address=address)
        return LinkReport(measurement_id=spec.measurement_id, bytes_per_s=1e9 + number, latency_s=0.001)

    def ask(self, *pairs: tuple[int, int]) -> None:
        with self.commit(execute=True):
            links_measure([(self.nodes[source].pk, self.nodes[target].pk) for source, target in pairs], now=self.now())

    def advance(self, seconds: float = 0.0) -> None:
        self.now.advance(seconds)
        with self.commit(execute=True):
            links_advance(now=self.now())

    def results(self) -> dict[tuple[str, str], float | None]:
        return {(link.source.name, link.target.name): link.bytes_per_s for link in Link.objects.all()}


@pytest.fixture
def network(
    now: Clock,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
) -> Iterator[Network]:
    settings.LINK_DEADLINE_S, settings.LINKS_AT_ONCE = DEADLINE_S, 4
    made = Network(now, django_capture_on_commit_callbacks)
    monkeypatch.setattr(hooks, "specs_renew", made.renew)
    return made


def test_the_receiver_comes_first_and_the_sender_learns_its_address_from_its_report(network: Network) -> None:
    alpha, beta = network.nodes[:2]
    network.ask((0, 1))

    [receiver] = network.spec(beta)
    assert (receiver.listen, receiver.deadline_s) == (True, DEADLINE_S)
    assert network.spec(alpha) == ()
    assert network.renewed == [beta.pk]

    network.report()
    [sender] = network.spec(alpha)
    assert (sender.listen, sender.peer_host, sender.peer_port) == (False, "10.0.0.1", 9000)
    assert sender.measurement_id == receiver.measurement_id
    assert network.renewed[-1] == alpha.pk


def test_the_result_is_kept_and_both_nodes_are_done(network: Network) -> None:
    network.ask((0, 1))
    network.report()
    network.now.advance(3)
    network.report()

    link = Link.objects.get()
    assert (link.source.name, link.target.name) == ("alpha", "beta")
    assert (link.bytes_per_s, link.latency_s, link.measured_at, link.error) == (1e9, 0.001, network.now(), "")
    assert links_wanted([node.pk for node in network.nodes]) == {}
    assert {network.nodes[0].pk, network.nodes[1].pk} <= set(network.renewed[-2:])


def test_a_node_is_in_one_measurement_at_a_time_and_all_get_their_turn(network: Network) -> None:
    pairs = list(permutations(range(4), 2))
    network.ask(*pairs)
    for _ in range(40):
        running = LinkMeasurement.objects.filter(started_at__isnull=False)
        busy = [node_id for row in running for node_id in (row.source_id, row.target_id)]
        assert len(busy) == len(set(busy))
        network.report()
    assert len(network.results()) == len(pairs)
    assert not LinkMeasurement.objects.exists()
    assert network.most_at_once == 2


def test_not_more_run_at_once_than_may(network: Network, settings: Settings) -> None:
    settings.LINKS_AT_ONCE = 1
    network.ask((0, 1), (2, 3))
    for _ in range(8):
        network.report()
    assert len(network.results()) == 2
    assert network.most_at_once == 1


def test_what_is_asked_for_twice_is_measured_once(network: Network) -> None:
    network.ask((0, 1))
    network.ask((0, 1))
    assert LinkMeasurement.objects.count() == 1


def test_an_error_of_either_end_is_kept_with_what_was_known_before(network: Network) -> None:
    network.ask((0, 1))
    network.report()
    network.report()
    network.errors["beta"] = "no port is free"
    network.ask((0, 1))
    network.report()

    link = Link.objects.get()
    assert (link.error, link.bytes_per_s) == ("beta: no port is free", 1e9)
    assert not LinkMeasurement.objects.exists()


@pytest.mark.parametrize(("deaf", "blamed"), [("beta", "beta said nothing"), ("alpha", "alpha said nothing")])
def test_a_silent_end_is_given_up_and_named(network: Network, deaf: str, blamed: str) -> None:
    network.deaf = {deaf}
    network.ask((0, 1))
    network.report()
    network.advance(DEADLINE_S)
    assert not Link.objects.exists()
    network.advance(DEADLINE_S)
    assert blamed in Link.objects.get().error


def test_a_clock_that_went_back_ends_a_measurement_rather_than_letting_it_last_for_ever(network: Network) -> None:
    network.deaf = {"beta"}
    network.ask((0, 1))
    network.advance(-3600)
    assert not LinkMeasurement.objects.exists()


def test_a_node_that_is_lost_or_retired_is_not_waited_for(network: Network) -> None:
    network.ask((0, 1), (2, 3))
    Node.objects.filter(name="beta").update(phase=NodePhase.LOST)
    node_retire(network.nodes[3].pk)
    network.advance()
    assert not LinkMeasurement.objects.exists()
    assert [link.error for link in Link.objects.all()] == ["beta does not report.", "delta was retired."]


def test_a_node_can_end_only_measurements_that_it_has_a_part_in(network: Network) -> None:
    network.ask((0, 1))
    row = LinkMeasurement.objects.get()
    forged = LinkReport(measurement_id=str(row.pk), bytes_per_s=9e9, error="x", address=Address(host="evil", port=1))
    node_record_report(report(network.nodes[2], sequence=99, links=(forged,)), received_at=network.now())
    row.refresh_from_db()
    assert row.peer_port is None
    assert not Link.objects.exists()


def test_a_receiver_cannot_tell_the_result_nor_a_sender_the_address(network: Network) -> None:
    network.ask((0, 1))
    row = LinkMeasurement.objects.get()
    result = LinkReport(measurement_id=str(row.pk), bytes_per_s=9e9)
    address = LinkReport(measurement_id=str(row.pk), address=Address(host="evil", port=1))
    for number, said in ((1, result), (0, address)):
        node_record_report(report(network.nodes[number], sequence=99, links=(said,)), received_at=network.now())
    row.refresh_from_db()
    assert (row.peer_port, Link.objects.count()) == (None, 0)


def test_what_a_pool_needs_to_know_is_asked_for_once_a_day(network: Network) -> None:
    ids = [node.pk for node in network.nodes[:2]]
    for expected in (2, 0):
        with network.commit(execute=True):
            links_needed(ids)
        assert LinkMeasurement.objects.count() == expected
        for _ in range(6):
            network.report()
    network.now.advance(25 * 3600)
    network.report()
    with network.commit(execute=True):
        links_needed(ids)
    assert LinkMeasurement.objects.count() == 2


# -- as an operation


def measure(api: APIClient, network: Network, *numbers: int, query: str = ""):
    with network.commit(execute=True):
        nodes = [str(network.nodes[number].pk) for number in numbers]
        return api.post(f"/api/v1/links/measure{query}", {"nodes": nodes}, format="json")


def advance(network: Network) -> Operation:
    with network.commit(execute=True):
        operations_advance()
    return Operation.objects.get()


def test_an_operation_measures_all_pairs_and_shows_its_progress(api: APIClient, network: Network) -> None:
    answer = measure(api, network, 0, 1, 2)
    assert answer.status_code == 202, answer.content
    seen = []
    for _ in range(20):
        network.report()
        seen.append(advance(network).progress)
    operation = advance(network)
    assert (operation.state, operation.outcome) == (OperationState.SUCCEEDED, "6 pairs measured.")
    assert seen == sorted(seen)
    assert len(set(seen)) > 3
    listed = api.get("/api/v1/links?source=alpha").json()["items"]
    assert sorted((link["target"], link["bytes_per_s"]) for link in listed) == [("beta", 1e9), ("gamma", 1e9)]


def test_an_operation_with_a_pair_that_gave_nothing_fails_and_names_it(api: APIClient, network: Network) -> None:
    network.errors["beta"] = "no port is free"
    measure(api, network, 0, 1)
    for _ in range(4):
        network.report()
    operation = advance(network)
    assert operation.state == OperationState.FAILED
    assert "beta: no port is free" in operation.outcome


def test_a_cancelled_measurement_asks_for_no_more(api: APIClient, network: Network) -> None:
    operation = measure(api, network, 0, 1, 2, 3).json()["operation"]
    with network.commit(execute=True):
        assert api.post(f"/api/v1/operations/{operation['id']}/cancel", {}, format="json").status_code == 200
    for _ in range(5):
        network.report()
    assert not LinkMeasurement.objects.exists()
    assert len(network.results()) == 2


def test_one_network_is_measured_once_at_a_time(api: APIClient, network: Network) -> None:
    measure(api, network, 0, 1)
    refused = measure(api, network, 2, 3)
    assert (refused.status_code, refused.json()["code"]) == (409, "operation_conflict")
    assert measure(api, network, 2, 3, query="?on_conflict=queue").json()["operation"]["state"] == "queued"


@pytest.mark.parametrize("numbers", [(), (0,), (0, 0)])
def test_a_network_has_two_nodes(api: APIClient, network: Network, numbers: tuple[int, ...]) -> None:
    assert measure(api, network, *numbers).json()["field"] == "nodes"


def test_a_node_that_does_not_report_cannot_be_measured(api: APIClient, network: Network) -> None:
    Node.objects.filter(name="beta").update(phase=NodePhase.LOST)
    assert measure(api, network, 0, 1).json()["code"] == "node_away"


def test_a_trial_measures_nothing(api: APIClient, network: Network) -> None:
    assert measure(api, network, 0, 1, query="?dry_run=true").status_code == 202
    assert not LinkMeasurement.objects.exists()
    assert not Operation.objects.exists()
