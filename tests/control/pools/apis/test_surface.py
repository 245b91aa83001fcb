"""Claims about the REST surface of deployments, pools and workers: views, refusals, nothing half-written."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest
from rest_framework.test import APIClient

from controlplane.pools.models import Deployment, Pool
from inference.contracts.states import WorkerPhase
from inference.contracts.views.operations import OperationView
from inference.contracts.views.pools import DeploymentView, PoolView
from tests.control.conftest import OPERATOR
from tests.control.pools.world import World

DEPLOYMENTS = "/api/v1/deployments"
PAIR = {"name": "m", "model": "tiny", "prefill": 1, "decode": 1}


@pytest.fixture
def pair(world: World) -> World:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    return world


def pool_url(world: World, role: str = "decode") -> str:
    return f"/api/v1/pools/{world.pool(role).pk}"


def test_nobody_sees_anything_without_a_login(world: World) -> None:
    anonymous = APIClient()

    assert anonymous.get(DEPLOYMENTS).status_code == 401
    assert anonymous.post(DEPLOYMENTS, PAIR, format="json").status_code == 401
    assert anonymous.patch(f"/api/v1/pools/{uuid4()}", {}, format="json").status_code == 401


def test_deploying_answers_with_the_deployment_and_its_operation(world: World, api: APIClient) -> None:
    world.node("a")
    answered = api.post(DEPLOYMENTS, {**PAIR, "settings": {"kv_tokens": 4096, "kv_by_layer": True}}, format="json")

    assert answered.status_code == 201
    view = msgspec.convert(answered.json()["deployment"], DeploymentView)
    operation = msgspec.convert(answered.json()["operation"], OperationView)
    assert (view.name, view.model, view.serving, view.status) == ("m", "tiny", False, "Starting: 0 of 2 workers ready.")
    assert (view.settings.kv_tokens, view.settings.kv_by_layer) == (4096, True)
    assert [(pool.role, pool.replicas, pool.generation) for pool in view.pools] == [("prefill", 1, 1), ("decode", 1, 1)]
    assert (operation.target, operation.after, operation.requested_by) == ("m", "1 prefill + 1 decode", OPERATOR)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**PAIR, "prefill": "one"}, "prefill"),
        ({**PAIR, "decode": 1.5}, "decode"),
        ({**PAIR, "replicas": 2}, "replicas"),
        ({"name": "m"}, "model"),
        ({**PAIR, "model": "nothing"}, "model"),
        ({**PAIR, "settings": {"kv_token": 4096}}, "settings.kv_token"),
        ({**PAIR, "settings": {"kv_tokens": "many"}}, "settings.kv_tokens"),
        ({**PAIR, "settings": {"block_size": 0}}, "settings.block_size"),
        ({**PAIR, "settings": {"max_model_len": 10**30}}, "settings.max_model_len"),
        ({**PAIR, "local_prefill_tokens": 10**30}, "local_prefill_tokens"),
        ({**PAIR, "decode": 9}, "decode"),
    ],
)
def test_a_bad_request_is_refused_with_its_field(world: World, api: APIClient, body: dict, field: str) -> None:
    world.node("a")
    answered = api.post(DEPLOYMENTS, body, format="json")

    assert answered.status_code == 400
    assert answered.json()["field"] == field
    assert answered.json()["detail"].endswith(".")
    assert not Deployment.objects.exists()


def test_a_reason_is_no_letter(pair: World, api: APIClient) -> None:
    """It travels with every event of its operation."""
    wanted = {"generation": 1, "replicas": 2, "reason": "x" * 501}
    answered = api.patch(pool_url(pair), wanted, format="json")

    assert (answered.status_code, answered.json()["field"]) == (400, "reason")
    assert pair.pool("decode").replicas == 1


@pytest.mark.postgres
def test_a_name_that_no_database_could_hold_is_not_found(api: APIClient) -> None:
    assert api.get(f"{DEPLOYMENTS}/%00").status_code == 404
    assert api.delete(f"{DEPLOYMENTS}/%00").status_code == 404


def test_a_taken_name_is_409(pair: World, api: APIClient) -> None:
    answered = api.post(DEPLOYMENTS, PAIR, format="json")

    assert answered.status_code == 409
    assert answered.json()["code"] == "name_taken"


def test_the_view_of_a_serving_deployment(pair: World, api: APIClient) -> None:
    (listed,) = api.get(DEPLOYMENTS).json()["items"]
    assert listed == api.get(f"{DEPLOYMENTS}/m").json()
    view = msgspec.convert(listed, DeploymentView)

    assert (view.serving, view.status) == (True, "Serving.")
    decode = next(pool for pool in view.pools if pool.role == "decode")
    assert (decode.ready, decode.refusals) == (1, ())
    (worker,) = decode.workers
    assert (worker.name, worker.node_name, worker.phase, worker.desired) == ("decode-1", "a", "ready", "run")
    assert worker.fingerprint == "fingerprint-of-all"
    assert worker.kv_blocks_total == 100
    assert len(worker.device_ids) == 1


@pytest.mark.parametrize(
    ("phase", "fingerprint", "status"),
    [
        (WorkerPhase.FAILED, "f", "Not serving: decode-1 failed."),
        (WorkerPhase.LOADING, "f", "Starting: 1 of 2 workers ready."),
        (WorkerPhase.BACKOFF, "f", "Not serving: decode-1 died and is started again."),
        (WorkerPhase.READY, "g", "Not serving: no prefill worker and decode worker have the same fingerprint."),
    ],
)
def test_a_deployment_that_does_not_serve_says_why(
    pair: World, api: APIClient, phase: WorkerPhase, fingerprint: str, status: str
) -> None:
    pair.process("decode-1").phase = phase
    pair.process("decode-1").fingerprint = fingerprint
    pair.report()
    view = msgspec.convert(api.get(f"{DEPLOYMENTS}/m").json(), DeploymentView)

    assert (view.serving, view.status) == (False, status)


def test_a_fingerprint_conflict_is_on_the_worker_and_on_its_pool(pair: World, api: APIClient) -> None:
    """F06: both values named."""
    pair.process("decode-1").fingerprint = "other"
    pair.report()
    view = msgspec.convert(api.get(f"{DEPLOYMENTS}/m").json(), DeploymentView)
    decode = next(pool for pool in view.pools if pool.role == "decode")

    why = "can't exchange KV with any prefill worker: its fingerprint is other, theirs fingerprint-"
    assert decode.workers[0].reason == why
    assert decode.refusals == (f"decode-1 {why}",)


def test_an_unknown_load_is_null_and_not_zero(world: World, api: APIClient) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    view = msgspec.convert(api.get(f"{DEPLOYMENTS}/m").json(), DeploymentView)
    worker = view.pools[0].workers[0]

    assert worker.running is worker.waiting is worker.kv_blocks_used is worker.handoffs is worker.fingerprint is None


def test_resizing_answers_202_with_pool_and_operation(pair: World, api: APIClient) -> None:
    answered = api.patch(pool_url(pair), {"generation": 1, "replicas": 2, "reason": "more"}, format="json")

    assert answered.status_code == 202
    assert msgspec.convert(answered.json()["pool"], PoolView).replicas == 2
    operation = msgspec.convert(answered.json()["operation"], OperationView)
    assert (operation.target, operation.before, operation.after) == ("m/decode", "1 worker", "2 workers")
    assert operation.reason == "more"


def test_a_stale_resize_is_409_with_the_current_value(pair: World, api: APIClient) -> None:
    api.patch(pool_url(pair), {"generation": 1, "replicas": 2}, format="json")
    answered = api.patch(pool_url(pair), {"generation": 1, "replicas": 3}, format="json")

    assert answered.status_code == 409
    error = answered.json()
    assert (error["code"], error["field"]) == ("stale_generation", "generation")
    assert error["current"] == {"generation": 2, "replicas": 2}


def test_a_resize_to_the_present_size_is_200_without_operation(pair: World, api: APIClient) -> None:
    answered = api.patch(pool_url(pair), {"generation": 1, "replicas": 1}, format="json")

    assert answered.status_code == 200
    assert answered.json()["operation"] is None


@pytest.mark.parametrize("replicas", [-1, 65, 5, "2", None, True])
def test_an_impossible_size_is_400_on_replicas(pair: World, api: APIClient, replicas: object) -> None:
    answered = api.patch(pool_url(pair), {"generation": 1, "replicas": replicas}, format="json")

    assert answered.status_code == 400
    assert answered.json()["field"] == "replicas"
    assert Pool.objects.get(role="decode").replicas == 1


def test_deleting_is_202_and_twice_is_the_same_operation(pair: World, api: APIClient) -> None:
    first = api.delete(f"{DEPLOYMENTS}/m")
    second = api.delete(f"{DEPLOYMENTS}/m", {"reason": "again"}, format="json")

    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["operation"]["id"] == second.json()["operation"]["id"]
    view = msgspec.convert(api.get(f"{DEPLOYMENTS}/m").json(), DeploymentView)
    assert (view.deleting, view.status) == (True, "Being deleted: 2 left to stop.")


def test_restarting_a_failed_worker_is_202(pair: World, api: APIClient) -> None:
    pair.process("decode-1").phase = WorkerPhase.FAILED
    pair.report()
    answered = api.post(f"/api/v1/workers/{pair.worker('decode-1').pk}/restart", {}, format="json")

    assert answered.status_code == 202
    assert answered.json()["operation"]["kind"] == "restart_worker"
    assert pair.worker("decode-1").restart == 1


def test_restarting_a_worker_that_leaves_is_409(pair: World, api: APIClient) -> None:
    pair.resize("decode", 0)
    answered = api.post(f"/api/v1/workers/{pair.worker('decode-1').pk}/restart", {}, format="json")

    assert answered.status_code == 409
    assert answered.json()["code"] == "not_restartable"


def test_what_is_not_there_is_404(world: World, api: APIClient) -> None:
    answers = [
        api.get(f"{DEPLOYMENTS}/nothing"),
        api.delete(f"{DEPLOYMENTS}/nothing"),
        api.patch(f"/api/v1/pools/{uuid4()}", {"generation": 1, "replicas": 1}, format="json"),
        api.post(f"/api/v1/workers/{uuid4()}/restart", {}, format="json"),
    ]

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(404, "not_found")] * 4


def test_the_version_of_a_deployment_tells_of_its_policy_for_rollouts(pair: World, api: APIClient) -> None:
    """Nobody overwrites a policy that they did not see."""
    seen = api.get(f"{DEPLOYMENTS}/m")["ETag"]
    first = api.patch(f"{DEPLOYMENTS}/m", {"policy": {"min_requests": 5}}, format="json", headers={"If-Match": seen})
    second = api.patch(f"{DEPLOYMENTS}/m", {"policy": {"observe_s": 5}}, format="json", headers={"If-Match": seen})

    assert (first.status_code, second.status_code) == (200, 412)
    assert Deployment.objects.get().policy.min_requests == 5
