"""Changes of the make-believe fleet: tried with one and the same preview, done by noting that they were asked for."""

from __future__ import annotations

import asyncio
import uuid

import msgspec
from aiohttp import web

from frontend.testing.answers import answer, page, refuse
from frontend.testing.scene.measures import iso
from frontend.testing.scene.operations import REBALANCE, operation, preview
from frontend.testing.stage import Stage
from inference.contracts.console import DeploymentChanged, ModelChanged, ModelRemoved, OperationChanged
from inference.contracts.routing_policy import RoutingPolicy
from inference.contracts.states import OperationState
from inference.contracts.views.models import ModelView
from inference.contracts.views.operations import OperationView
from inference.contracts.views.pools import DeploymentView

POLICY = {
    "step": None,
    "observe_s": 30.0,
    "max_error_rate": 0.05,
    "max_slo_miss_rate": 0.2,
    "min_requests": 20,
    "quiet_s": 300.0,
    "step_deadline_s": 3600.0,
}

#: What only begins an operation.
BEGIN = (
    ("POST", "deployments/{name}/rebalance"),
    ("POST", "deployments/{name}/rollout"),
    ("POST", "deployments/{name}/rollout/{turn}"),
    ("POST", "deployments/{name}/rollback"),
    ("DELETE", "deployments/{name}"),
    ("POST", "workers/{worker}/flip"),
    ("POST", "workers/{worker}/restart"),
    ("POST", "nodes/{node}/{action}"),
    ("POST", "links/measure"),
    ("POST", "models/{name}/fetch"),
    ("POST", "operations/{id}/{action}"),
)


def operating_routes(stage: Stage) -> web.RouteTableDef:
    table = web.RouteTableDef()
    _operation_routes(table, stage)
    _pool_routes(table, stage)
    _deployment_routes(table, stage)
    _model_routes(table, stage)
    return table


def is_trial(request: web.Request) -> bool:
    return request.query.get("dry_run") == "true"


def tried(title: str) -> OperationView:
    return operation(title, "smollm2-135m", OperationState.QUEUED, 0, preview=preview(), steps=())


def _operation_routes(table: web.RouteTableDef, stage: Stage) -> None:
    @table.get("/api/v1/operations")
    async def operations(request: web.Request) -> web.Response:
        wanted = {name: request.query[name] for name in ("state", "kind") if name in request.query}
        return page([one for one in stage.operations if all(getattr(one, name) == wanted[name] for name in wanted)])

    async def begin(request: web.Request) -> web.Response:
        what = request.path.removeprefix("/api/v1/")
        title = what.replace("/", " ")
        if is_trial(request):
            return answer({"operation": tried(title)})
        busy = any(one.id == REBALANCE and one.finished_at is None for one in stage.operations)
        if what.endswith("rebalance") and busy and "on_conflict" not in request.query:
            first = stage.operations[0]
            sentence = f'"{first.title}" runs on qwen3-8b/prefill. Wait until it has ended, or cancel it.'
            return refuse(409, "operation_conflict", sentence, None, {"operation": REBALANCE})
        made = operation(title, "smollm2-135m", OperationState.RUNNING, 0, steps=())
        stage.operations.insert(0, made)
        await stage.send(OperationChanged(operation=made))
        return answer({"operation": made}, 202)

    for method, path in BEGIN:
        table.route(method, f"/api/v1/{path}")(begin)


def _pool_routes(table: web.RouteTableDef, stage: Stage) -> None:
    @table.patch("/api/v1/pools/{pool}")
    async def change(request: web.Request) -> web.Response:
        body = await request.json()
        at, number = stage.find_pool(request.match_info["pool"])
        pool = stage.deployments[at].pools[number]
        if body["generation"] != pool.generation:
            current = {"generation": pool.generation, "replicas": pool.replicas}
            return refuse(409, "stale_generation", "The pool was changed meanwhile.", "generation", current)
        wanted = {name: body[name] for name in ("min_replicas", "max_replicas", "labels", "strategy") if name in body}
        changed = msgspec.structs.replace(pool, **wanted, generation=pool.generation + 1)
        replicas = body.get("replicas", pool.replicas)
        if replicas > 8:
            return refuse(400, "over_capacity", f"{replicas} replicas need more slots than there are.", "replicas")
        if is_trial(request):
            return answer({"pool": changed, "operation": tried("Resize") if "replicas" in body else None})
        await stage.put_pool(at, number, **wanted, replicas=replicas, generation=changed.generation)
        if "replicas" not in body:
            return answer({"pool": changed, "operation": None})
        made = operation(
            f"Resize {pool.role} of {pool.deployment}",
            f"{pool.deployment}/{pool.role}",
            OperationState.RUNNING,
            0,
            before=f"{pool.replicas} replicas",
            after=f"{replicas} replicas",
            reason=body["reason"],
            id=str(uuid.uuid4()),
            steps=(),
        )
        stage.operations.insert(0, made)
        await stage.send(OperationChanged(operation=made))
        stage.tasks.add(asyncio.create_task(stage.resize(at, number, made.id, replicas)))
        return answer({"pool": stage.deployments[at].pools[number], "operation": made}, 202)


def _deployment_routes(table: web.RouteTableDef, stage: Stage) -> None:
    def named(request: web.Request) -> tuple[int, DeploymentView]:
        wanted = request.match_info["name"]
        return next((at, one) for at, one in enumerate(stage.deployments) if one.name == wanted)

    @table.post("/api/v1/deployments")
    async def deploy(request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("decode", 0) > 8:
            return refuse(400, "no_capacity", "8 more decode workers are wanted, and 2 slots are free.", "decode")
        if is_trial(request):
            return answer({"deployment": stage.deployments[0], "operation": tried("Deploy")}, 201)
        return refuse(409, "name_taken", f"A deployment named {body['name']!r} exists already.", "name")

    @table.get("/api/v1/deployments/{name}")
    async def show(request: web.Request) -> web.Response:
        return answer(named(request)[1])

    @table.get("/api/v1/deployments/{name}/rollout")
    async def rollout(request: web.Request) -> web.Response:
        return answer({"policy": POLICY, "rollout": named(request)[1].rollout})

    @table.patch("/api/v1/deployments/{name}")
    async def change(request: web.Request) -> web.Response:
        at, deployment = named(request)
        body = await request.json()
        told = {name: body[name] for name in ("local_prefill_tokens", "slo_ttft_s", "slo_tpot_s") if name in body}
        if "routing" in body:
            told["routing"] = msgspec.convert(body["routing"], RoutingPolicy)
        changed = msgspec.structs.replace(deployment, **told)
        if not is_trial(request):
            stage.deployments[at] = changed
            await stage.send(DeploymentChanged(deployment=changed))
        return answer(changed)


def _model_routes(table: web.RouteTableDef, stage: Stage) -> None:
    def named(request: web.Request) -> tuple[int, ModelView]:
        wanted = request.match_info["name"]
        return next((at, one) for at, one in enumerate(stage.models) if one.name == wanted)

    @table.post("/api/v1/models")
    async def add(request: web.Request) -> web.Response:
        body = await request.json()
        model = msgspec.convert({**body, "created_at": iso()}, ModelView)
        stage.models.append(model)
        await stage.send(ModelChanged(model=model))
        return answer(model, 201)

    @table.get("/api/v1/models/{name}")
    async def show(request: web.Request) -> web.Response:
        return answer(named(request)[1])

    @table.patch("/api/v1/models/{name}")
    async def change(request: web.Request) -> web.Response:
        at, model = named(request)
        body = await request.json()
        told = {name: body[name] for name in ("path", "revision", "licence", "description") if name in body}
        changed = msgspec.structs.replace(model, **told)
        if not is_trial(request):
            stage.models[at] = changed
            await stage.send(ModelChanged(model=changed))
        return answer(changed)

    @table.delete("/api/v1/models/{name}")
    async def delete(request: web.Request) -> web.Response:
        at, model = named(request)
        users = [one.name for one in stage.deployments if one.model == model.name]
        if users:
            sentence = f"{model.name} is used by {', '.join(users)}. Delete those first."
            return refuse(409, "model_used", sentence, None, {"deployments": users})
        if not is_trial(request):
            del stage.models[at]
            await stage.send(ModelRemoved(name=model.name))
        return web.Response(status=204)
