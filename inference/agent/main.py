"""The node agent's command.

    python -m inference.agent run --url http://control.example:8000 --token <join token> --data /var/lib/tandem-agent

`--url` and `--token` are needed once; the membership is kept in the data folder. Exit codes: 0 stopped, 2 wrong use,
69 control plane not reached, 70 supervision broke down, 73 data folder in use or not writable, 75 the queue's consumer
stalled (start the agent again; its workers serve on), 77 join refused.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import structlog

from inference.agent.app import make_app, make_worker
from inference.agent.config import AGENT_VERSION, ConfigError, Settings
from inference.agent.engines.command import EngineRegistry
from inference.agent.engines.native import native_command
from inference.agent.hosts import Hosts, NoAddress, choose_hosts
from inference.agent.inventory import Inventory
from inference.agent.join import ControlPlaneUnreachable, JoinCall, JoinRefused, join
from inference.agent.node import Node, step_for
from inference.agent.state_dir import FolderInUse, Membership, StateDir
from inference.contracts.reports import NodeHello
from inference.process.logs import configure_logging

EXIT_USAGE = 2
EXIT_UNREACHABLE = 69
EXIT_FOLDER = 73
EXIT_REFUSED = 77

PRODUCT_ENGINES = EngineRegistry({"native": native_command})

log = structlog.get_logger()


class Unusable(Exception):
    """The agent can't start; the text says why, `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def main(arguments: Sequence[str] | None = None, engines: EngineRegistry = PRODUCT_ENGINES) -> int:
    """Run an agent until it is told to end. Returns the exit code."""
    options = _parser().parse_args(arguments)
    configure_logging(os.environ, libraries=logging.INFO)  # Celery tells there what it does with the queue
    try:
        return _run(options, engines)
    except Unusable as error:
        log.error(str(error))
        return error.code


def _run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    try:
        settings = Settings.from_environment(os.environ)
    except ConfigError as error:
        raise Unusable(str(error), EXIT_USAGE) from error
    try:
        state = StateDir(options.data)
        with state.locked():
            inventory = Inventory(settings)
            membership = _membership(options, state, settings, inventory)
            return _serve(membership, state, settings, inventory, engines)
    except FolderInUse as error:
        raise Unusable(str(error), EXIT_FOLDER) from error
    except OSError as error:
        raise Unusable(f"the data folder {options.data} can't be used: {error}", EXIT_FOLDER) from error


def _serve(
    membership: Membership, state: StateDir, settings: Settings, inventory: Inventory, engines: EngineRegistry
) -> int:
    welcome = membership.welcome
    redis_url = settings.redis_url or welcome.redis_url
    hosts = _hosts(membership.url, settings, remembered=membership.address)
    app = make_app(redis_url, welcome.node_id)
    node = Node(
        app=app,
        welcome=welcome,
        hosts=hosts,
        redis_url=redis_url,
        state=state,
        engines=engines,
        inventory=inventory,
        settings=settings,
    )
    app.steps["worker"].add(step_for(node))
    log.info("agent starts", node_id=welcome.node_id, name=welcome.name, address=hosts.advertised, bind=hosts.bind)
    worker = make_worker(app, welcome.node_id)
    worker.start()
    return int(worker.exitcode or 0)


def _membership(options: argparse.Namespace, state: StateDir, settings: Settings, inventory: Inventory) -> Membership:
    """What the folder remembers, or the outcome of a join."""
    known = state.membership
    if known is None:
        known = _join(options, settings, inventory)
        state.save_membership(known)
        log.info("joined", node_id=known.welcome.node_id, name=known.welcome.name)
    elif options.token:
        log.info("already a node; the join token is not used", node_id=known.welcome.node_id)
    state.save_secret(known.welcome.cluster_secret)
    return known


def _join(options: argparse.Namespace, settings: Settings, inventory: Inventory) -> Membership:
    token = options.token or os.environ.get("TANDEM_JOIN_TOKEN")
    if not options.url or not token:
        raise Unusable(
            f"{options.data} holds no membership yet: give --url and --token "
            "(the Fleet page of the console shows the whole command)",
            EXIT_USAGE,
        )
    hosts = _hosts(options.url, settings, remembered=None)
    hello = NodeHello(
        hostname=socket.gethostname(),
        address=hosts.advertised,
        agent_version=AGENT_VERSION,
        devices=inventory.devices({}),
        cpu_cores=inventory.cpu_cores,
        memory_total=inventory.memory_total,
        name=options.name,
    )
    call = JoinCall(url=options.url, token=token, hello=hello)
    try:
        welcome = asyncio.run(join(call, deadline_s=settings.join_deadline_s))
    except JoinRefused as error:
        raise Unusable(str(error), EXIT_REFUSED) from error
    except ControlPlaneUnreachable as error:
        raise Unusable(str(error), EXIT_UNREACHABLE) from error
    return Membership(url=options.url, address=hosts.advertised, welcome=welcome)


def _hosts(url: str, settings: Settings, *, remembered: str | None) -> Hosts:
    try:
        return choose_hosts(url=url, address=settings.address, worker_host=settings.worker_host, remembered=remembered)
    except NoAddress as error:
        raise Unusable(str(error), EXIT_USAGE) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inference.agent", description="Tandem node agent")
    run = parser.add_subparsers(dest="command", required=True).add_parser("run", help="run this machine as a node")
    run.add_argument("--url", help="control plane, for the first start")
    run.add_argument("--token", help="join token, for the first start (or TANDEM_JOIN_TOKEN)")
    run.add_argument("--data", type=Path, required=True, help="folder of this agent")
    run.add_argument("--name", help="what people shall call this node (default: its host name)")
    return parser
