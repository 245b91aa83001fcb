"""The processes of a one-machine Tandem, in the order in which they start."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from controlplane.launch import ready
from controlplane.launch.layout import Layout
from controlplane.launch.redis_server import find_binary, write_config

CELERY = [sys.executable, "-m", "celery", "-A", "controlplane.config.celery"]


@dataclass(frozen=True, slots=True)
class Service:
    """One process to keep running.

    is_ready: asked until it says yes. environment: on top of the one that all share. stop_s: seconds between SIGTERM
    and SIGKILL.
    """

    name: str
    title: str
    argv: list[str]
    is_ready: Callable[[], bool]
    environment: dict[str, str] = field(default_factory=dict)
    stop_s: float = 15.0


def redis_service(layout: Layout, password: str) -> Service:
    return Service(
        name="redis",
        title=f"Redis server on {layout.host}:{layout.redis_port}",
        argv=[str(find_binary()), str(write_config(layout, password))],
        is_ready=ready.redis_answers,
    )


def tandem_services(layout: Layout, join_token: str | None) -> list[Service]:
    """Everything that needs Redis. `join_token`: for the local node's first start; None once it has joined."""
    agent_data = layout.data / "agent"
    # Not as an argument: every user of the machine can read those.
    join = {"TANDEM_JOIN_TOKEN": join_token} if join_token else {}
    tls = {"CERT_FILE": layout.tls_cert, "KEY_FILE": layout.tls_key} if layout.tls_cert else {}
    return [
        Service(
            name="console",
            title=f"console and REST API on {layout.console_url}",
            argv=[
                *(sys.executable, "-m", "uvicorn", "controlplane.config.asgi:application"),
                *("--host", layout.host, "--port", str(layout.console_port)),
                *("--lifespan", "off", "--no-access-log", "--timeout-graceful-shutdown", "3"),
                # Whose address a request names is decided by TANDEM_BEHIND_PROXY alone.
                "--no-proxy-headers",
                *(word for name, path in tls.items() for word in (f"--ssl-{name.replace('_', '').lower()}", path)),
            ],
            is_ready=lambda: ready.http_answers(f"{layout.console_url}/healthz"),
        ),
        Service(
            name="control-worker",
            title="control worker (reconcile)",
            argv=[
                *CELERY,
                *("worker", "--queues", "control", "--hostname", "control@%h", "--loglevel", "INFO"),
                *("--pool", "threads", "--concurrency", "4", "--without-mingle", "--without-gossip"),
            ],
            is_ready=ready.control_worker_answers,
        ),
        Service(
            name="beat",
            title="beat (periodic sweep)",
            argv=[
                *CELERY,
                *("beat", "--schedule", str(layout.data / "beat.db"), "--pidfile", "", "--loglevel", "WARNING"),
            ],
            is_ready=ready.always,
        ),
        Service(
            name="telemetry",
            title="telemetry (merges windows)",
            argv=[sys.executable, str(layout.root / "manage.py"), "telemetry"],
            is_ready=ready.always,
        ),
        Service(
            name="router",
            title=f"router (OpenAI API) on {layout.router_url}/v1",
            argv=[
                *(sys.executable, "-m", "inference.router"),
                *("--host", layout.host, "--port", str(layout.router_port)),
            ],
            is_ready=lambda: ready.http_answers(f"{layout.router_url}/health/live"),
            environment={f"TANDEM_ROUTER_TLS_{name}": path for name, path in tls.items()},
        ),
        Service(
            name="agent",
            title="node agent of this machine",
            argv=[
                *(sys.executable, "-m", "inference.agent", "run"),
                *("--url", layout.console_url, "--data", str(agent_data), "--name", "local"),
            ],
            is_ready=lambda: (agent_data / "agent.json").exists(),
            environment={"TANDEM_WORKER_HOST": layout.host, **join},
            stop_s=40.0,
        ),
    ]
