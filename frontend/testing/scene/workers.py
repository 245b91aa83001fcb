"""Workers and pools."""

from __future__ import annotations

import random
import uuid

from frontend.testing.scene.measures import BLOCKS, iso
from inference.contracts.states import Role, WorkerDesired, WorkerPhase
from inference.contracts.views.pools import PoolView, WorkerView


def worker(role: Role, number: int, deployment: str, device: str, node: str = "desk", **changes: object) -> WorkerView:
    values: dict[str, object] = {
        "id": str(uuid.uuid4()),
        "name": f"{role}-{number}",
        "pool_id": f"{deployment}-{role}",
        "node_id": node,
        "node_name": node,
        "role": role,
        "desired": WorkerDesired.RUN,
        "phase": WorkerPhase.READY,
        "reason": "",
        "attempts": 1,
        "next_start_s": None,
        "drain_left_s": None,
        "device_ids": (device,),
        "running": random.randint(0, 5),
        "waiting": 0,
        "kv_blocks_used": random.randint(100, 700),
        "kv_blocks_total": BLOCKS,
        "handoffs": 0,
        "fingerprint": "5f1c",
        "log_tail": (
            "2026-10-31 14:02:01 [info] loading weights path=/models/smollm2",
            "2026-10-31 14:02:04 [info] weights loaded seconds=2.9 dtype=float32",
            "2026-10-31 14:02:04 [info] KV arena ready blocks=1024 block_size=16",
            "2026-10-31 14:02:05 [info] first token generated, ready",
        ),
        "created_at": iso(3000),
        "phase_since": iso(random.randint(100, 2900)),
    }
    return WorkerView(**{**values, **changes})


def pool(deployment: str, role: Role, replicas: int, workers: tuple[WorkerView, ...], **changes: object) -> PoolView:
    values: dict[str, object] = {
        "id": f"{deployment}-{role}",
        "deployment": deployment,
        "role": role,
        "replicas": replicas,
        "ready": sum(one.phase == WorkerPhase.READY for one in workers),
        "generation": 3,
        "min_replicas": 0,
        "max_replicas": 64,
        "refusals": (),
        "workers": workers,
    }
    return PoolView(**{**values, **changes})
