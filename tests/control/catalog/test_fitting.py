from __future__ import annotations

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from controlplane.catalog import services
from controlplane.catalog.learning import Told
from controlplane.fleet.models import Device
from controlplane.fleet.services import node_retire
from inference.contracts.states import DeviceKind
from tests.control.catalog.nodes import GB, PATH, Nodes
from tests.control.fleet.messages import slot
from tests.inference.planning.model import known_models as known

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def gpu(index: int, name: str, memory: int | None) -> Any:
    return slot(index, device_id=f"gpu-{index}", kind=DeviceKind.GPU, name=name, memory_total=memory, cores=())


@pytest.fixture
def fleet(nodes: Nodes) -> Nodes:
    services.model_create(name="m", path=PATH, told=Told(config=known.LLAMA_3_1_8B))
    nodes.add("a", devices=(gpu(0, "H100", 80 * GB), gpu(1, "H100", 80 * GB)))
    nodes.add("b", devices=(gpu(0, "H100", 80 * GB), gpu(1, "T4", 16 * GB), gpu(2, "X9", None)))
    nodes.add("c", devices=(slot(0, memory_total=20 * GB),))
    return nodes


def fit(api: APIClient, query: str = "") -> dict[str, Any]:
    answered = api.get(f"/api/v1/models/m/fit{query}")
    assert answered.status_code == 200, answered.json()
    return {device["name"]: device for device in answered.json()["devices"]}


def test_every_type_of_device_of_the_fleet_is_told_with_its_numbers(api: APIClient, fleet: Nodes) -> None:
    told = fit(api, "?kv_tokens=10000")

    assert list(told) == ["H100", "T4", "X9", "CPU slot"]
    weights, kv = 2 * 8_030_261_248, 10_000 * 131_072
    assert told["H100"] == {
        "name": "H100",
        "kind": "gpu",
        "memory_total": 80 * GB,
        "count": 3,
        "fits": True,
        "weights_bytes": weights,
        "kv_bytes": kv,
        "allowance_bytes": 2 * GB,
        "needed_bytes": weights + kv + 2 * GB,
        "kv_tokens_max": (80 * GB - weights - 2 * GB) // 131_072,
    }
    assert (told["T4"]["fits"], told["T4"]["kv_tokens_max"]) == (False, 0)
    assert (told["X9"]["fits"], told["X9"]["kv_tokens_max"], told["X9"]["needed_bytes"]) == (
        None,
        None,
        weights + kv + 2 * GB,
    )
    # 32-bit numbers on a processor are more than the slot's share of memory, which is no limit.
    assert (told["CPU slot"]["fits"], told["CPU slot"]["weights_bytes"]) == (None, 2 * weights)


def test_more_devices_need_less_each(api: APIClient, fleet: Nodes) -> None:
    assert fit(api, "?tensor_parallel=2&kv_tokens=1000")["T4"]["fits"] is True


def test_numbers_may_be_larger(api: APIClient, fleet: Nodes) -> None:
    assert fit(api, "?dtype=float32")["H100"]["weights_bytes"] == 4 * 8_030_261_248


def test_of_an_unknown_model_nothing_is_said(api: APIClient, fleet: Nodes) -> None:
    services.model_change("m", forget_shape=True)
    told = fit(api)["H100"]

    assert (told["fits"], told["weights_bytes"], told["needed_bytes"], told["kv_tokens_max"]) == (None,) * 4


def test_devices_that_are_gone_do_not_count(api: APIClient, fleet: Nodes) -> None:
    Device.objects.filter(name="T4").update(missing=True)
    node_retire(Device.objects.get(name="X9").node_id)

    assert {name: device["count"] for name, device in fit(api).items()} == {"H100": 2, "CPU slot": 1}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("kv_tokens=0", "kv_tokens"),
        ("kv_tokens=99999999999", "kv_tokens"),
        ("kv_tokens=many", "kv_tokens"),
        ("tensor_parallel=0", "tensor_parallel"),
        ("tensor_parallel=65", "tensor_parallel"),
        ("dtype=int4", "dtype"),
        ("context=5", "context"),
    ],
)
def test_what_can_not_be_run_is_refused(api: APIClient, fleet: Nodes, query: str, field: str) -> None:
    answered = api.get(f"/api/v1/models/m/fit?{query}")

    assert (answered.status_code, answered.json()["field"]) == (400, field)


def test_it_costs_the_same_however_large_the_fleet(
    api: APIClient, fleet: Nodes, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(6):  # session, user, role, grants, model, devices
        fit(api)
