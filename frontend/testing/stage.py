"""The make-believe control plane: its state, told to every console that is connected."""

from __future__ import annotations

import asyncio
import random
import time

import msgspec
from aiohttp import web

from frontend.testing.records import Records, person
from frontend.testing.scene.deployments import deployments
from frontend.testing.scene.frames import frame
from frontend.testing.scene.measures import iso
from frontend.testing.scene.models import models
from frontend.testing.scene.nodes import nodes
from frontend.testing.scene.operations import operations
from frontend.testing.scene.workers import worker
from inference.contracts import codec
from inference.contracts.console import (
    DeploymentChanged,
    EventMessage,
    NodeChanged,
    OperationChanged,
    Snapshot,
    TelemetryTick,
)
from inference.contracts.states import OperationState, WorkerPhase
from inference.contracts.views.operations import OperationStepView


class Stage:
    """What is there now, who watches it, and what goes on by itself."""

    def __init__(self, empty: bool) -> None:
        self.user: str | None = None
        self.deployments = [] if empty else deployments()
        self.nodes = [] if empty else nodes(self.deployments)
        self.models = [] if empty else models()
        self.operations = [] if empty else operations()
        self.records = Records(empty)
        now = int(time.time())
        self.frames = [frame(second, self.deployments) for second in range(now - 590, now)]
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
            self.frames.append(frame(int(time.time()), self.deployments))
            await self.send(TelemetryTick(frame=self.frames[-1]))
            if self.nodes and random.random() < 0.5:
                self.nodes = nodes(self.deployments)
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

    async def resize(self, at: int, number: int, operation_id: str, replicas: int) -> None:
        """Walk the pool to its new size and the operation to its end, at a pace one can watch."""
        pool = self.deployments[at].pools[number]
        keep = pool.workers[:replicas]
        extra = [
            worker(pool.role, len(keep) + 1 + more, pool.deployment, f"cpu-{2 + more}", phase=WorkerPhase.ASSIGNED)
            for more in range(replicas - len(keep))
        ]
        for phase in (WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.READY):
            await asyncio.sleep(1.5)
            workers = (*keep, *(msgspec.structs.replace(one, phase=phase) for one in extra))
            ready = sum(one.phase == WorkerPhase.READY for one in workers)
            await self.put_pool(at, number, workers=workers, ready=ready)
            await self.step(operation_id, f"{extra[0].name if extra else 'pool'} is {phase}")
        await self.put_operation(
            operation_id,
            state=OperationState.SUCCEEDED,
            progress=1.0,
            finished_at=iso(),
            outcome="All replicas are ready.",
        )

    async def step(self, operation_id: str, text: str) -> None:
        old = next(one for one in self.operations if one.id == operation_id)
        steps = (*old.steps, OperationStepView(at=iso(), text=text))
        await self.put_operation(operation_id, steps=steps, progress=min(0.95, old.progress + 0.2))

    async def put_operation(self, operation_id: str, **changes: object) -> None:
        at = next(at for at, one in enumerate(self.operations) if one.id == operation_id)
        self.operations[at] = msgspec.structs.replace(self.operations[at], **changes)
        await self.send(OperationChanged(operation=self.operations[at]))

    def session(self) -> dict[str, object]:
        return {
            "user": None if self.user is None else person(self.user),
            "csrf": "rehearsal",
            "oidc": {"name": "Lab SSO", "url": "/api/v1/session/oidc"},
        }
