"""The built console on a make-believe control plane, to look at pages without running anything:

    python -m frontend.testing.rehearsal [--port 8800] [--empty]

Who signs in as "viewer" or "operator" has that role; everybody else is an administrator.

For the eye only: product tests run against the real control plane.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
import uuid
from pathlib import Path

import msgspec
from aiohttp import WSMsgType, web

from frontend.testing import fleet
from frontend.testing.answers import answer, page, refuse
from frontend.testing.records import Records, person, record_routes
from inference.contracts import codec
from inference.contracts.console import (
    DeploymentChanged,
    EventMessage,
    ModelChanged,
    NodeChanged,
    OperationChanged,
    Snapshot,
    SnapshotMessage,
    TelemetryTick,
)
from inference.contracts.states import OperationState, Role, WorkerPhase
from inference.contracts.views.operations import OperationStepView

DIST = Path(__file__).parents[1] / "dist"
ANSWER = (
    "A tandem carries two riders on one bicycle. The one in front steers and sees the road first; the one behind "
    "keeps the rhythm.\n\nPrefill is the rider in front: it reads the whole prompt at once. Decode is the rider "
    "behind: it writes one token after another, at a steady pace."
)


class Rehearsal:
    def __init__(self, empty: bool) -> None:
        self.user: str | None = None
        self.deployments = [] if empty else fleet.deployments()
        self.nodes = [] if empty else fleet.nodes(self.deployments)
        self.models = [] if empty else fleet.models()
        self.operations = [] if empty else fleet.operations()
        self.records = Records(empty)
        now = int(time.time())
        self.frames = [fleet.frame(second, self.deployments) for second in range(now - 590, now)]
        self.sockets: set[web.WebSocketResponse] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.seq = 0

    def snapshot(self) -> Snapshot:
        return Snapshot(
            seq=f"{self.seq}-0",
            deployments=tuple(self.deployments),
            nodes=tuple(self.nodes),
            operations=tuple(self.operations),
            models=tuple(self.models),
            frames=tuple(self.frames[-600:]),
        )

    async def send(self, event: object) -> None:
        self.seq = max(self.seq + 1, int(time.time() * 1000))
        text = codec.encode_text(EventMessage(seq=f"{self.seq}-0", event=event))
        for socket in list(self.sockets):
            await socket.send_str(text)

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(1)
            self.frames.append(fleet.frame(int(time.time()), self.deployments))
            await self.send(TelemetryTick(frame=self.frames[-1]))
            if self.nodes and random.random() < 0.5:
                self.nodes = fleet.nodes(self.deployments)
                await self.send(NodeChanged(node=self.nodes[0]))

    def find_pool(self, pool_id: str) -> tuple[int, int]:
        for at, deployment in enumerate(self.deployments):
            for number, pool in enumerate(deployment.pools):
                if pool.id == pool_id:
                    return at, number
        raise web.HTTPNotFound

    async def put_pool(self, at: int, number: int, **changes: object) -> None:
        deployment = self.deployments[at]
        pools = list(deployment.pools)
        pools[number] = msgspec.structs.replace(pools[number], **changes)
        self.deployments[at] = msgspec.structs.replace(deployment, pools=tuple(pools))
        await self.send(DeploymentChanged(deployment=self.deployments[at]))

    async def resize(self, at: int, number: int, op: int, replicas: int) -> None:
        """Walk the pool to its new size and the operation to its end, at a pace one can watch."""
        pool = self.deployments[at].pools[number]
        keep = pool.workers[:replicas]
        extra = [
            fleet.worker(
                pool.role, len(keep) + 1 + more, pool.deployment, f"cpu-{2 + more}", phase=WorkerPhase.ASSIGNED
            )
            for more in range(replicas - len(keep))
        ]
        for phase in (WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.READY):
            await asyncio.sleep(1.5)
            workers = (*keep, *(msgspec.structs.replace(one, phase=phase) for one in extra))
            ready = sum(one.phase == WorkerPhase.READY for one in workers)
            await self.put_pool(at, number, workers=workers, ready=ready)
            await self.step(op, f"{extra[0].name if extra else 'pool'} is {phase}")
        self.operations[op] = msgspec.structs.replace(
            self.operations[op],
            state=OperationState.SUCCEEDED,
            progress=1.0,
            finished_at=fleet.iso(),
            outcome="All replicas are ready.",
        )
        await self.send(OperationChanged(operation=self.operations[op]))

    async def step(self, op: int, text: str) -> None:
        old = self.operations[op]
        steps = (*old.steps, OperationStepView(at=fleet.iso(), text=text))
        self.operations[op] = msgspec.structs.replace(old, steps=steps, progress=min(0.95, old.progress + 0.2))
        await self.send(OperationChanged(operation=self.operations[op]))

    def session(self) -> dict[str, object]:
        return {
            "user": None if self.user is None else person(self.user),
            "csrf": "rehearsal",
            "oidc": {"name": "Lab SSO", "url": "/api/v1/session/oidc"},
        }


def routes(stage: Rehearsal) -> web.RouteTableDef:
    table = web.RouteTableDef()

    @table.get("/api/v1/session")
    async def session(request: web.Request) -> web.Response:
        return answer(stage.session())

    @table.post("/api/v1/session")
    async def sign_in(request: web.Request) -> web.Response:
        body = await request.json()
        if body["password"] == "wrong":
            return refuse(401, "bad_credentials", "This user name and password do not belong together.")
        stage.user = body["username"]
        return answer(stage.session())

    @table.delete("/api/v1/session")
    async def sign_out(request: web.Request) -> web.Response:
        stage.user = None
        return web.Response(status=204)

    @table.post("/api/v1/models")
    async def add_model(request: web.Request) -> web.Response:
        body = await request.json()
        model = msgspec.convert({**body, "created_at": fleet.iso()}, type(fleet.models()[0]))
        stage.models.append(model)
        await stage.send(ModelChanged(model=model))
        return answer(model, 201)

    @table.patch("/api/v1/pools/{pool}")
    async def resize(request: web.Request) -> web.Response:
        body = await request.json()
        at, number = stage.find_pool(request.match_info["pool"])
        pool = stage.deployments[at].pools[number]
        if body["generation"] != pool.generation:
            current = {"generation": pool.generation, "replicas": pool.replicas}
            return refuse(409, "stale_generation", "The pool was changed meanwhile.", "generation", current)
        if body["replicas"] > 8:
            return refuse(
                400, "over_capacity", f"{body['replicas']} replicas need more slots than there are.", "replicas"
            )
        if request.query.get("dry_run") == "true":
            preview = fleet.preview()
            return answer({"operation": fleet.operation("", "", OperationState.QUEUED, 0, preview=preview)})
        stage.operations.insert(
            0,
            fleet.operation(
                f"Resize {pool.role} of {pool.deployment}",
                f"{pool.deployment}/{pool.role}",
                OperationState.RUNNING,
                0,
                before=f"{pool.replicas} replicas",
                after=f"{body['replicas']} replicas",
                reason=body["reason"],
                id=str(uuid.uuid4()),
                steps=(),
            ),
        )
        await stage.put_pool(at, number, replicas=body["replicas"], generation=pool.generation + 1)
        await stage.send(OperationChanged(operation=stage.operations[0]))
        task = asyncio.create_task(stage.resize(at, number, 0, body["replicas"]))
        stage.tasks.add(task)
        return answer({"pool": stage.deployments[at].pools[number], "operation": stage.operations[0]}, 202)

    @table.get("/api/v1/playground/info")
    async def info(request: web.Request) -> web.Response:
        return answer({"serving_url": "http://10.0.0.4:8100"})

    @table.post("/api/v1/playground/chat")
    async def chat(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body["max_tokens"] > 100_000:
            return answer(
                {
                    "error": {
                        "message": "max_tokens is 100001; this model can write 8192.",
                        "type": "invalid_request_error",
                        "param": "max_tokens",
                        "code": "context_length_exceeded",
                    }
                },
                400,
            )
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(0.4)
        words = ANSWER.split(" ")
        for at, word in enumerate(words[: body["max_tokens"]]):
            last = at == len(words) - 1
            chunk = {
                "choices": [{"index": 0, "delta": {"content": word + ("" if last else " ")}, "finish_reason": None}]
            }
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
            await asyncio.sleep(0.03)
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        await response.write(f"data: {json.dumps(end)}\n\n".encode())
        await response.write(f"event: timings\ndata: {json.dumps(timings(stage, body['model']))}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    @table.get("/ws/console")
    async def socket(request: web.Request) -> web.WebSocketResponse:
        connection = web.WebSocketResponse(heartbeat=20)
        await connection.prepare(request)
        await connection.send_str(codec.encode_text(SnapshotMessage(snapshot=stage.snapshot())))
        stage.sockets.add(connection)
        try:
            async for message in connection:
                if message.type == WSMsgType.ERROR:
                    break
        finally:
            stage.sockets.discard(connection)
        return connection

    @table.get("/{path:.*}")
    async def console_page(request: web.Request) -> web.FileResponse:
        file = DIST / request.match_info["path"]
        return web.FileResponse(file if file.is_file() else DIST / "index.html")

    return table


def operation_routes(stage: Rehearsal) -> web.RouteTableDef:
    """Everything that begins an operation is tried with the same preview, and done by noting that it was asked for."""
    table = web.RouteTableDef()

    @table.get("/api/v1/operations")
    async def operations(request: web.Request) -> web.Response:
        wanted = {name: request.query[name] for name in ("state", "kind") if name in request.query}
        return page([one for one in stage.operations if all(getattr(one, name) == wanted[name] for name in wanted)])

    @table.get("/api/v1/deployments/{name}/rollout")
    async def rollout(request: web.Request) -> web.Response:
        policy = {"step": None, "observe_s": 30.0, "max_error_rate": 0.05, "max_slo_miss_rate": 0.2}
        return answer({"policy": {**policy, "min_requests": 20, "step_deadline_s": 3600.0}, "rollout": None})

    async def begin(request: web.Request) -> web.Response:
        what = request.path.removeprefix("/api/v1/")
        made = fleet.operation(what.replace("/", " "), "smollm2-135m", OperationState.RUNNING, 0, steps=())
        if request.query.get("dry_run") == "true":
            return answer({"operation": msgspec.structs.replace(made, preview=fleet.preview())})
        busy = any(one.id == fleet.REBALANCE and one.finished_at is None for one in stage.operations)
        if what.endswith("rebalance") and busy and "on_conflict" not in request.query:
            first = stage.operations[0]
            sentence = f'"{first.title}" runs on qwen3-8b/prefill. Wait until it has ended, or cancel it.'
            return refuse(409, "operation_conflict", sentence, None, {"operation": fleet.REBALANCE})
        stage.operations.insert(0, made)
        await stage.send(OperationChanged(operation=made))
        return answer({"operation": made}, 202)

    for path in (
        "deployments/{name}/rebalance",
        "deployments/{name}/rollout",
        "deployments/{name}/rollout/{turn}",
        "deployments/{name}/rollback",
        "workers/{worker}/flip",
        "workers/{worker}/restart",
        "nodes/{node}/{action}",
        "links/measure",
        "models/{name}/fetch",
        "operations/{id}/{action}",
    ):
        table.post(f"/api/v1/{path}")(begin)
    return table


def timings(stage: Rehearsal, model: str) -> dict[str, object]:
    pools = next(one.pools for one in stage.deployments if one.name == model)
    first = {pool.role: pool.workers[0].id for pool in pools}
    segments = {"router": 0.0021, "reserve": 0.0034, "prefill_queue": 0.0412, "prefill": 0.1873, "network": 0.0038}
    return {
        "request_id": "req-1",
        "deployment": model,
        "path": "handoff",
        "prefill_worker": first[Role.PREFILL],
        "decode_worker": first[Role.DECODE],
        "prompt_tokens": 512,
        "cached_tokens": 0,
        "completion_tokens": 64,
        "finish_reason": "stop",
        "ttft_s": sum(segments.values()),
        "tpot_s": 0.0291,
        "e2e_s": 2.07,
        "segments": [{"name": name, "seconds": seconds} for name, seconds in segments.items()],
        "first_gap_s": 0.0442,
        "handoff_s": 0.0127,
        "handoff_bytes": 512 * 23040,
        "decode_wait_s": 0.0041,
        "retries": 0,
        "transfer_s": 0.0081,
    }


async def start_ticking(app: web.Application) -> None:
    app["ticking"] = asyncio.create_task(app["stage"].tick())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8800)
    parser.add_argument("--empty", action="store_true", help="before anything was deployed")
    chosen = parser.parse_args()
    app = web.Application()
    app["stage"] = Rehearsal(chosen.empty)
    app.add_routes(record_routes(app["stage"].records))
    app.add_routes(operation_routes(app["stage"]))
    app.add_routes(routes(app["stage"]))
    app.on_startup.append(start_ticking)
    web.run_app(app, host="127.0.0.1", port=chosen.port, print=None)


if __name__ == "__main__":
    main()
