"""Claims about the REST surface of flips, rebalances, roll-outs and changes: answers, refusals, trials, the queue."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rest_framework.response import Response
from rest_framework.test import APIClient

from controlplane.audit.models import AuditEntry
from controlplane.operations.models import Operation
from controlplane.pools.models import Deployment, Revision, Rollout
from controlplane.pools.routing import deployment_routes
from inference.contracts.answers import RolloutAnswer
from inference.contracts.routing_policy import RoutingPolicy
from inference.contracts.states import HandoffFailure, OperationKind, OperationState, WorkerPhase
from inference.contracts.views.operations import OperationView
from inference.contracts.views.pools import DeploymentView, PoolView, RevisionView
from tests.control.conftest import OPERATOR
from tests.control.pools.world import World

M = "/api/v1/deployments/m"


@pytest.fixture
def full(world: World) -> World:
    """Four devices, all held: 1 prefill, 3 decode."""
    world.node("a", slots=4)
    world.deploy(prefill=1, decode=3)
    world.come_up()
    return world


def post(api: APIClient, path: str, **body: Any) -> Response:
    return api.post(path, body, format="json")


def operation_of(answered: Response) -> OperationView:
    assert answered.status_code == 202, answered.json()
    return msgspec.convert(answered.json()["operation"], OperationView)


def rebalance(api: APIClient, query: str = "", **changes: int) -> Response:
    wanted = {"prefill": 2, "decode": 2, "prefill_generation": 1, "decode_generation": 1}
    return post(api, f"{M}/rebalance{query}", **(wanted | changes))


def test_a_rebalance_answers_with_its_operation_and_preview(full: World, api: APIClient) -> None:
    operation = operation_of(rebalance(api))

    assert (operation.kind, operation.state, operation.requested_by) == (
        OperationKind.REBALANCE,
        OperationState.RUNNING,
        OPERATOR,
    )
    assert operation.preview is not None
    assert operation.preview.devices_max == operation.preview.budget == 4
    assert len(operation.preview.flip) == 1
    assert operation.cancellable


def test_a_trial_run_tells_the_course_and_changes_nothing(full: World, api: APIClient) -> None:
    full.outbox.tasks.clear()
    entries = AuditEntry.objects.count()
    answered = rebalance(api, "?dry_run=true")

    assert answered["Dry-Run"] == "true"
    assert answered.json()["operation"]["preview"]["flip"]
    assert full.pool("prefill").replicas == 1
    assert Operation.objects.filter(kind=OperationKind.REBALANCE).count() == 0
    assert (full.outbox.tasks, AuditEntry.objects.count()) == ([], entries)


def test_a_stale_rebalance_is_409_and_one_over_budget_400(full: World, api: APIClient) -> None:
    stale, over = rebalance(api, prefill_generation=7), rebalance(api, decode=3)

    assert (stale.status_code, stale.json()["code"]) == (409, "stale_generation")
    assert (over.status_code, over.json()["code"]) == (400, "over_budget")


def test_a_flip_names_its_worker_and_how_it_is_done(full: World, api: APIClient) -> None:
    worker = full.worker("decode-2")
    operation = operation_of(post(api, f"/api/v1/workers/{worker.pk}/flip", reason="long prompts"))

    assert operation.title == "Flip decode-2 of m to prefill, with its weights loaded"
    assert operation.targets[0].kind == "worker"
    assert operation.reason == "long prompts"


def test_the_later_of_two_that_conflict_is_refused_or_waits(full: World, api: APIClient) -> None:
    first = operation_of(post(api, f"/api/v1/workers/{full.worker('decode-2').pk}/flip"))
    generations = {role: full.pool(role).generation for role in ("prefill", "decode")}
    wanted = {f"{role}_generation": generation for role, generation in generations.items()}
    refused = rebalance(api, prefill=3, decode=1, **wanted)
    queued = operation_of(rebalance(api, "?on_conflict=queue", prefill=3, decode=1, **wanted))

    assert refused.status_code == 409
    assert first.id in refused.json()["detail"]
    assert (queued.state, queued.queued_behind) == (OperationState.QUEUED, (first.id,))


def test_an_unknown_answer_to_conflicts_is_400(full: World, api: APIClient) -> None:
    assert rebalance(api, "?on_conflict=perhaps").status_code == 400


def test_a_roll_out_shows_where_it_stands(full: World, api: APIClient) -> None:
    operation = operation_of(
        post(api, f"{M}/rollout", settings={"block_size": 32}, note="larger blocks", policy={"min_requests": 7})
    )
    full.settle()
    answered = api.get(f"{M}/rollout")
    shown = msgspec.convert(answered.json(), RolloutAnswer)

    assert operation.after == "tiny, block_size 32"
    assert shown.policy.min_requests == 7
    assert shown.rollout is not None
    assert (shown.rollout.operation_id, shown.rollout.stable, shown.rollout.candidate) == (operation.id, 1, 2)
    assert shown.rollout.error_rate is None, "not known is not zero"
    view = msgspec.convert(api.get(M).json(), DeploymentView)
    assert [each.number for each in view.revisions] == [1, 2]
    assert (view.revision, view.settings.block_size) == (1, 16)


def test_it_is_paused_resumed_and_rolled_back(full: World, api: APIClient) -> None:
    assert post(api, f"{M}/rollout/pause").json()["code"] == "no_rollout"
    operation = operation_of(post(api, f"{M}/rollout", settings={"block_size": 32}))

    paused = msgspec.convert(post(api, f"{M}/rollout/pause").json(), DeploymentView)
    assert paused.rollout is not None
    assert paused.rollout.paused
    resumed = msgspec.convert(post(api, f"{M}/rollout/resume").json(), DeploymentView)
    assert resumed.rollout is not None
    assert not resumed.rollout.paused
    back = operation_of(post(api, f"{M}/rollback"))

    assert back.title == "Roll m back to revision 1"
    assert Operation.objects.get(pk=operation.id).state == OperationState.SUPERSEDED
    assert not Rollout.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"settings": {"block_sizes": 32}}, "settings.block_sizes"),
        ({"settings": {"block_size": 0}}, "settings.block_size"),
        ({"model": "huge"}, "model"),
        ({"policy": {"step": 2.0}}, "policy.step"),
        ({"policy": {"steps": 2}}, "policy.steps"),
        ({"settings": {"block_size": 32}, "note": "x" * 501}, "note"),
        ({}, None),
    ],
)
def test_a_bad_roll_out_is_400_with_its_field_and_makes_no_revision(
    full: World, api: APIClient, body: dict[str, Any], field: str | None
) -> None:
    answered = post(api, f"{M}/rollout", **body)

    assert (answered.status_code, answered.json()["field"]) == (400, field)
    assert Revision.objects.count() == 1


def test_revisions_are_listed_newest_first(full: World, api: APIClient) -> None:
    post(api, f"{M}/rollout", settings={"block_size": 32}, note="larger blocks")
    listed = [msgspec.convert(each, RevisionView) for each in api.get(f"{M}/revisions").json()["items"]]

    assert [(each.number, each.note, each.created_by) for each in listed] == [
        (2, "larger blocks", OPERATOR),
        (1, "", OPERATOR),
    ]


def test_a_deployment_is_changed_at_once_and_routers_are_told(full: World, api: APIClient) -> None:
    answered = api.patch(M, {"local_prefill_tokens": 7, "slo_ttft_s": 2.5}, format="json")
    view = msgspec.convert(answered.json(), DeploymentView)

    assert (view.local_prefill_tokens, view.slo_ttft_s, view.slo_tpot_s) == (7, 2.5, None)
    cleared = msgspec.convert(api.patch(M, {"slo_ttft_s": None}, format="json").json(), DeploymentView)
    assert (cleared.local_prefill_tokens, cleared.slo_ttft_s) == (7, None)
    assert [entry.action for entry in AuditEntry.objects.filter(action="deployment.change")] == [
        "deployment.change"
    ] * 2


def test_how_requests_are_routed_is_changed_and_read_and_reaches_routers(full: World, api: APIClient) -> None:
    wanted = RoutingPolicy(local_prefill_auto=True, handoff_failure=HandoffFailure.RECOMPUTE_ON_DECODE, idle_s=20.0)
    answered = api.patch(M, {"routing": msgspec.to_builtins(wanted), "slo_tpot_s": 0.03}, format="json")
    assert msgspec.convert(answered.json(), DeploymentView).routing == wanted
    (route,) = deployment_routes()
    assert (route.policy, route.itl_target_s) == (wanted, 0.03)
    untouched = api.patch(M, {"slo_tpot_s": None}, format="json")
    assert msgspec.convert(untouched.json(), DeploymentView).routing == wanted
    version = api.get(M)["ETag"]
    api.patch(M, {"routing": {}}, format="json")
    assert api.get(M)["ETag"] != version
    assert msgspec.convert(api.get(M).json(), DeploymentView).routing == RoutingPolicy()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"local_prefill_tokens": -1}, "local_prefill_tokens"),
        ({"slo_ttft_s": 0.0}, "slo_ttft_s"),
        ({"policy": {"max_error_rate": 3.0}}, "policy.max_error_rate"),
        ({"model": "other"}, "model"),
        ({"routing": {"idle_s": 0.0}}, "routing.idle_s"),
        ({"routing": {"total_s": 1e9}}, "routing.total_s"),
        ({"routing": {"handoff_failure": "shrug"}}, "routing.handoff_failure"),
    ],
)
def test_a_bad_change_is_400_with_its_field(full: World, api: APIClient, body: dict[str, Any], field: str) -> None:
    answered = api.patch(M, body, format="json")

    assert (answered.status_code, answered.json()["field"]) == (400, field)


def test_limits_labels_and_size_of_a_pool_are_changed_together_or_not_at_all(full: World, api: APIClient) -> None:
    pool = f"/api/v1/pools/{full.pool('decode').pk}"
    refused = api.patch(pool, {"generation": 1, "max_replicas": 4, "replicas": 5}, format="json")
    assert (refused.status_code, refused.json()["field"]) == (400, "replicas")
    assert full.pool("decode").max_replicas == 64, "nothing of a refused request stays"

    answered = api.patch(
        pool,
        {
            "generation": 1,
            "min_replicas": 1,
            "max_replicas": 3,
            "replicas": 2,
            "labels": ["rack=r7"],
            "strategy": "pack",
        },
        format="json",
    )
    assert answered.status_code == 202
    view = msgspec.convert(answered.json()["pool"], PoolView)
    assert (view.replicas, view.min_replicas, view.max_replicas) == (2, 1, 3)
    assert (view.labels, view.strategy, view.generation) == (("rack=r7",), "pack", 3)


def test_a_change_of_limits_alone_is_200_and_names_its_generation(full: World, api: APIClient) -> None:
    pool = f"/api/v1/pools/{full.pool('decode').pk}"
    assert api.patch(pool, {"generation": 1, "max_replicas": 9}, format="json").status_code == 200
    assert api.patch(pool, {"generation": 1, "max_replicas": 9}, format="json").status_code == 200, "twice is once"
    assert api.patch(pool, {"generation": 1, "max_replicas": 8}, format="json").status_code == 409


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"labels": ["a b"]}, "labels"),
        ({"strategy": "heap"}, "strategy"),
        ({"min_replicas": 4}, "min_replicas"),
        ({"max_replicas": 2}, "max_replicas"),
        ({"min_replicas": -1}, "min_replicas"),
    ],
)
def test_a_bad_pool_is_400_with_its_field(full: World, api: APIClient, body: dict[str, Any], field: str) -> None:
    answered = api.patch(f"/api/v1/pools/{full.pool('decode').pk}", {"generation": 1, **body}, format="json")

    assert (answered.status_code, answered.json()["field"]) == (400, field)


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({"tensor_parallel": 2}, "tensor_parallel", "does no tensor parallelism"),
        ({"engine": "vllm"}, "engine", "no engine 'vllm'"),
        ({"labels": ["!"]}, "labels", "'!'"),
        ({"strategy": "heap"}, "strategy", "spread or pack"),
        ({"slo_tpot_s": -1.0}, "slo_tpot_s", "above 0"),
        ({"policy": {"observe_s": -1.0}}, "policy.observe_s", "not -1"),
    ],
)
def test_what_an_engine_can_not_do_is_400_before_anything_starts(
    world: World, api: APIClient, body: dict[str, Any], field: str, says: str
) -> None:
    world.node("a")
    answered = post(api, "/api/v1/deployments", name="x", model="tiny", prefill=1, decode=1, **body)

    assert (answered.status_code, answered.json()["field"]) == (400, field)
    assert says in answered.json()["detail"]
    assert not Deployment.objects.exists()


def test_two_operators_and_a_double_click(full: World, api: APIClient) -> None:
    """F25: both saw 3; one saves 2, the other 1 a moment later; the first clicks twice."""
    pool = f"/api/v1/pools/{full.pool('decode').pk}"
    first = api.patch(pool, {"generation": 1, "replicas": 2}, format="json")
    again = api.patch(pool, {"generation": 1, "replicas": 2}, format="json")
    other = api.patch(pool, {"generation": 1, "replicas": 1}, format="json")

    assert first.json()["operation"]["id"] == again.json()["operation"]["id"]
    assert (other.status_code, other.json()["current"]) == (409, {"generation": 2, "replicas": 2})
    assert full.pool("decode").replicas == 2
    (entry,) = AuditEntry.objects.filter(action="pool.resize")
    assert (entry.actor, entry.before, entry.after["replicas"]) == (OPERATOR, {"replicas": 3}, 2)


def test_a_restart_is_an_operation(full: World, api: APIClient) -> None:
    full.process("decode-1").phase = WorkerPhase.FAILED
    full.report()
    operation = operation_of(post(api, f"/api/v1/workers/{full.worker('decode-1').pk}/restart", reason="disk was full"))

    assert (operation.kind, operation.before) == (OperationKind.RESTART_WORKER, "failed")
