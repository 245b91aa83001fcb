"""A database as release 0.1.0 left it: its migrations, and rows of every kind it had, through its own models."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.apps.registry import Apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

LEAVES = [
    ("access", "0001_initial"),
    ("auth", "0012_alter_user_first_name_max_length"),
    ("catalog", "0001_initial"),
    ("contenttypes", "0002_remove_content_type_name"),
    ("fleet", "0002_watch_and_boots"),
    ("operations", "0002_one_running_operation_per_target"),
    ("pools", "0001_initial"),
    ("sessions", "0001_initial"),
    ("telemetry", "0002_window_cursor"),
]
NOON = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
NODE_A, NODE_B = UUID(int=0xA), UUID(int=0xB)
PREFILL, DECODE, GOING = UUID(int=1), UUID(int=2), UUID(int=3)
INCARNATION = {name: UUID(int=100 + number) for number, name in enumerate(("prefill-1", "prefill-2", "decode-1"))}


def build() -> None:
    """Make the tables and fill them. The database is empty before."""
    executor = MigrationExecutor(connection)
    executor.migrate(LEAVES)
    apps = executor.loader.project_state(LEAVES).apps
    for fill in (_people, _fleet, _pools, _operations, _telemetry):
        fill(apps)


def _create(apps: Apps, model: str, /, **values: Any) -> Any:
    return apps.get_model(*model.split(".")).objects.create(**values)


def _people(apps: Apps) -> None:
    _create(apps, "auth.User", username="admin", password="!", is_superuser=True, is_staff=True)
    _create(apps, "auth.User", username="grace", password="!")
    _create(apps, "sessions.Session", session_key="s" * 32, session_data="x", expire_date=NOON + timedelta(days=7))
    keys = {"created_by": "admin", "created_at": NOON}
    _create(apps, "access.ServingKey", name="first", prefix="tk-first", digest="1" * 64, **keys)
    _create(apps, "access.ServingKey", name="old", prefix="tk-old", digest="2" * 64, revoked_at=NOON, **keys)
    _create(apps, "access.ServingKey", name="playground", prefix="tk-play", digest="3" * 64, internal=True, **keys)
    _create(apps, "access.KeyTableVersion", version=7)


def _fleet(apps: Apps) -> None:
    common = {"joined_at": NOON, "generation": 4, "cpu_cores": 8, "memory_total": 1 << 36}
    seen = {"boot_id": "boot-2", "retired_boot_id": "boot-1", "sequence": 900, "last_report_at": NOON}
    a = _create(
        apps, "fleet.Node", id=NODE_A, name="a", hostname="a", address="10.0.0.1", phase="ready",
        observed_generation=4, agent_version="0.1.0", **common, **seen,
    )  # fmt: skip
    _create(apps, "fleet.Node", id=NODE_B, name="b", hostname="b", address="10.0.0.2", phase="joining", **common)
    for index in range(4):
        _create(
            apps, "fleet.Device", node=a, device_id=f"cpu{index}", kind="cpu", index=index, name="CPU slot",
            cores=str(index), memory_total=1 << 33,
        )  # fmt: skip
    _create(apps, "fleet.Device", node=a, device_id="gone", kind="gpu", index=9, name="A GPU", missing=True)
    token = {"created_by": "admin", "created_at": NOON, "expires_at": NOON + timedelta(hours=1)}
    _create(apps, "fleet.JoinToken", digest="4" * 64, node=a, used_at=NOON, **token)
    _create(apps, "fleet.JoinToken", digest="5" * 64, note="for b", **token)
    _create(apps, "fleet.Watch", since=NOON, swept_at=NOON)


def _pools(apps: Apps) -> None:
    """A deployment with a worker that serves, one that is half started and one that backs off; one that is leaving."""
    model = _create(apps, "catalog.Model", name="tiny", path="/models/tiny", created_at=NOON)
    _create(apps, "catalog.Model", name="unused", path="org/unused", description="from the hub", created_at=NOON)
    chat = _create(apps, "pools.Deployment", name="chat", model=model, settings={"kv_tokens": 4096}, created_at=NOON)
    leaving = _create(apps, "pools.Deployment", name="leaving", model=model, created_at=NOON, deleting=True)
    prefill = _create(apps, "pools.Pool", id=PREFILL, deployment=chat, role="prefill", replicas=2, generation=3)
    decode = _create(apps, "pools.Pool", id=DECODE, deployment=chat, role="decode", replicas=1)
    going = _create(apps, "pools.Pool", id=GOING, deployment=leaving, role="unified", replicas=0, refusals="none free")
    ready = {
        "phase": "ready", "http_host": "10.0.0.1", "http_port": 9000, "transfer_host": "10.0.0.1",
        "transfer_port": 9001, "fingerprint": "f" * 64, "context_length": 2048, "attempts": 1,
    }  # fmt: skip
    _worker(apps, prefill, "prefill-1", "cpu0", phase="starting", attempts=1)
    _worker(apps, prefill, "prefill-2", "cpu1", phase="backoff", attempts=3, next_start_s=4.0, reason="it ended")
    _worker(apps, decode, "decode-1", "cpu2", **ready)
    _worker(apps, going, "unified-1", "cpu3", **{**ready, "http_port": 9002}, desired="drain", drain_left_s=12.5)
    _create(apps, "pools.RoutingTableVersion", version=12, digest="6" * 64)


def _worker(apps: Apps, pool: Any, name: str, device_id: str, **values: Any) -> None:
    if name in INCARNATION:
        values["incarnation"] = INCARNATION[name]
    worker = _create(
        apps, "pools.Worker", name=name, pool=pool, node_id=NODE_A, created_at=NOON, phase_since=NOON, **values
    )
    device = apps.get_model("fleet", "Device").objects.get(node_id=NODE_A, device_id=device_id)
    _create(apps, "pools.Allocation", device=device, worker=worker)


def _operations(apps: Apps) -> None:
    chat, leaving = apps.get_model("pools", "Deployment").objects.order_by("name")
    gone = UUID(int=99)
    for number, (kind, target, key, name, state) in enumerate(
        (
            ("deploy", "deployment", chat.pk, "chat", "succeeded"),
            ("resize", "pool", PREFILL, "chat/prefill", "superseded"),
            ("resize", "pool", PREFILL, "chat/prefill", "running"),
            ("resize", "pool", DECODE, "chat/decode", "failed"),
            ("resize", "pool", gone, "gone/decode", "failed"),
            ("delete", "deployment", leaving.pk, "leaving", "running"),
        )
    ):
        operation = _create(
            apps, "operations.Operation", kind=kind, state=state, target_kind=target, target_id=str(key),
            target_name=name, target_generation=number, title=f"{kind} {name}", requested_by="admin",
            before="1 worker", after="2 workers", progress=0.5, started_at=NOON,
            finished_at=None if state == "running" else NOON,
        )  # fmt: skip
        _create(apps, "operations.OperationStep", operation=operation, at=NOON, text="1 of 2 workers ready")


def _telemetry(apps: Apps) -> None:
    for pool in ("", str(DECODE)):
        _create(apps, "telemetry.RollUp", deployment="chat", pool_id=pool, second=1_790_000_000, window="{}")
    _create(apps, "telemetry.WindowCursor", id=1, position="1790000000000-0")
