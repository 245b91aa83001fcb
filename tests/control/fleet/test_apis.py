from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from controlplane.catalog.models import Model
from controlplane.core import clock
from controlplane.fleet.models import Device, Node
from controlplane.fleet.services import node_record_report
from controlplane.pools.models import Allocation, Deployment, Pool, Revision, Worker
from inference.contracts.states import Role
from tests.control.conftest import Clock
from tests.control.fleet.messages import GIB, joined, report, slot
from tests.control.races import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def worker_on(node: Node, name: str = "decode-1") -> Worker:
    moment = clock.now()
    model, _ = Model.objects.get_or_create(name="m", defaults={"path": "p", "created_at": moment})
    deployment, _ = Deployment.objects.get_or_create(name="chat", defaults={"created_at": moment})
    revision, _ = Revision.objects.get_or_create(
        deployment=deployment, number=1, defaults={"model": model, "created_at": moment}
    )
    pool, _ = Pool.objects.get_or_create(deployment=deployment, role=Role.DECODE, defaults={"replicas": 1})
    return Worker.objects.create(
        name=name, pool=pool, node=node, revision=revision, created_at=moment, phase_since=moment
    )


def test_a_node_is_shown_with_its_devices_and_who_holds_them(api: APIClient, now: Clock) -> None:
    node = joined()
    worker = worker_on(node)
    Allocation.objects.create(device=Device.objects.get(device_id="cpu-1"), worker=worker)
    now.advance(2)
    node_record_report(report(node), received_at=now())

    [listed] = api.get("/api/v1/nodes").json()["items"]
    assert listed == api.get(f"/api/v1/nodes/{node.pk}").json()
    assert (listed["name"], listed["phase"], listed["memory_used"]) == ("alpha", "ready", 4 * GIB)
    assert (listed["joined_at"], listed["last_report_at"]) == ("2026-03-01T12:00:00.000Z", "2026-03-01T12:00:02.000Z")
    assert [(device["device_id"], device["worker_id"]) for device in listed["devices"]] == [
        ("cpu-0", None),
        ("cpu-1", str(worker.pk)),
    ]


def test_a_missing_device_is_shown_while_a_worker_holds_it(api: APIClient, now: Clock) -> None:
    node = joined()
    Allocation.objects.create(device=Device.objects.get(device_id="cpu-1"), worker=worker_on(node))
    node_record_report(report(node, devices=()), received_at=now())

    [device] = api.get(f"/api/v1/nodes/{node.pk}").json()["devices"]
    assert (device["device_id"], device["missing"], device["memory_used"]) == ("cpu-1", True, None)


def test_listing_costs_the_same_however_many_nodes_there_are(api: APIClient) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            listed = api.get("/api/v1/nodes").json()["items"]
        assert len(listed) == Node.objects.count()
        return len(caught)

    worker_on(joined())
    few = queries()
    for number in range(5):
        node = joined()
        Allocation.objects.create(device=node.devices.first(), worker=worker_on(node, f"decode-{number + 2}"))

    assert queries() == few
    assert [node["workers"] for node in api.get("/api/v1/nodes").json()["items"]] == [1] * 6


def test_an_unknown_node_is_not_found(api: APIClient) -> None:
    assert api.get(f"/api/v1/nodes/{uuid4()}").json()["code"] == "not_found"


def test_a_device_has_one_holder_at_most() -> None:
    node = joined()
    device = Device.objects.get(device_id="cpu-0")
    Allocation.objects.create(device=device, worker=worker_on(node, "decode-1"))

    with pytest.raises(IntegrityError), transaction.atomic():
        Allocation.objects.create(device=device, worker=worker_on(node, "decode-2"))


@pytest.mark.django_db(transaction=True)
def test_of_two_workers_that_reach_for_a_device_at_once_one_gets_it() -> None:
    node = joined()
    device = Device.objects.get(device_id="cpu-0")
    workers = [worker_on(node, name) for name in ("decode-1", "decode-2")]

    results = at_once(
        *(lambda worker=worker: Allocation.objects.create(device=device, worker=worker) for worker in workers)
    )

    assert sorted(type(result).__name__ for result in results) == ["Allocation", "IntegrityError"], results
    assert Allocation.objects.count() == 1


def test_a_device_that_a_worker_holds_is_not_deleted_by_reports(now: Clock) -> None:
    node = joined()
    Allocation.objects.create(device=Device.objects.get(device_id="cpu-0"), worker=worker_on(node))
    for sequence, devices in enumerate([(), (slot(5),), (slot(0),)], start=1):
        node_record_report(report(node, sequence=sequence, devices=devices), received_at=now())

    assert Allocation.objects.get().device.device_id == "cpu-0"
