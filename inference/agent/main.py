"""The node agent's command.

    python -m inference.agent run --url http://control.example:8000 --token <join token> --data /var/lib/tandem-agent

`--url` and `--token` are needed once; the membership is kept in the data folder. Exit codes: 0 stopped, 2 wrong use,
69 control plane not reached, 70 supervision broke down, 73 data folder in use or not writable, 75 start the agent again
(its queue's consumer stalled, or its broker is reached in another way now; its workers serve on), 77 join refused.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import structlog

from inference.agent.app import make_app, make_worker
from inference.agent.config import Settings
from inference.agent.control.api import NotNow, Refused
from inference.agent.control.hello import say_hello
from inference.agent.control.join import ControlPlaneUnreachable, JoinCall, JoinRefused, join
from inference.agent.control.membership import updated
from inference.agent.control.self_report import SelfReport
from inference.agent.engines.command import EngineRegistry
from inference.agent.engines.native import NATIVE
from inference.agent.hardware.inventory import Inventory
from inference.agent.hosts import Hosts, NoAddress, choose_hosts
from inference.agent.node import Node, step_for
from inference.agent.state_dir import FolderInUse, Membership, StateDir
from inference.process.logs import configure_logging
from inference.process.tls import NodeTls, read_node_tls

EXIT_USAGE = 2
EXIT_UNREACHABLE = 69
EXIT_FOLDER = 73
EXIT_REFUSED = 77

PRODUCT_ENGINES = EngineRegistry({"native": NATIVE})

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
        tls = read_node_tls(os.environ)  # also checked for the workers, which get the same files
    except ValueError as error:
        raise Unusable(str(error), EXIT_USAGE) from error
    try:
        state = StateDir(options.data)
        with state.locked():
            inventory = Inventory(settings)
            membership, heard = _membership(options, state, settings, inventory)
            return _serve(membership, heard, state, settings, inventory, engines, tls)
    except FolderInUse as error:
        raise Unusable(str(error), EXIT_FOLDER) from error
    except OSError as error:
        raise Unusable(f"the data folder {options.data} can't be used: {error}", EXIT_FOLDER) from error


def _serve(
    membership: Membership,
    heard: bool,
    state: StateDir,
    settings: Settings,
    inventory: Inventory,
    engines: EngineRegistry,
    tls: NodeTls | None,
) -> int:
    welcome = membership.welcome
    hosts = _hosts(membership.url, settings, remembered=membership.address)
    app = make_app(settings.redis_url or welcome.redis_url, welcome.node_id)
    node = Node(
        app=app,
        membership=membership,
        greeted=heard,
        hosts=hosts,
        state=state,
        engines=engines,
        says=SelfReport(hosts=hosts, inventory=inventory, data=state.root),
        settings=settings,
        worker_tls=tls.client if tls is not None else None,
    )
    app.steps["worker"].add(step_for(node))
    log.info("agent starts", node_id=welcome.node_id, name=welcome.name, address=hosts.advertised, bind=hosts.bind)
    worker = make_worker(app, welcome.node_id)
    worker.start()
    return int(worker.exitcode or 0)


def _membership(
    options: argparse.Namespace, state: StateDir, settings: Settings, inventory: Inventory
) -> tuple[Membership, bool]:
    """What this node is: by a join, by what the control plane answers to a hello, or, while that is away, by what the
    folder remembers; and whether the control plane was heard."""
    known, heard = state.membership, True
    if known is None:
        known = _join(options, state, settings, inventory)
        log.info("joined", node_id=known.welcome.node_id, name=known.welcome.name)
    else:
        if options.token:
            log.info("already a node; the join token is not used", node_id=known.welcome.node_id)
        known, heard = _greeted(known, state, settings, inventory)
    if heard:
        state.save_membership(known)
    state.save_secret(known.welcome.cluster_secret)
    return known, heard


def _greeted(
    membership: Membership, state: StateDir, settings: Settings, inventory: Inventory
) -> tuple[Membership, bool]:
    """The control plane is asked once and waited for briefly, so that a node starts with the newest credentials where
    it can and with those it remembers where it can't."""
    hosts = _hosts(membership.url, settings, remembered=membership.address)
    hello = SelfReport(hosts=hosts, inventory=inventory, data=state.root).hello(node_id=membership.welcome.node_id)
    try:
        welcome = asyncio.run(asyncio.wait_for(say_hello(membership, hello), settings.hello_wait_s))
    except (NotNow, Refused, TimeoutError) as error:
        log.warning("no answer to hello yet; the agent starts as last told", reason=str(error) or "it takes long")
        return membership, False
    return updated(membership, welcome), True


def _join(options: argparse.Namespace, state: StateDir, settings: Settings, inventory: Inventory) -> Membership:
    token = options.token or os.environ.get("TANDEM_JOIN_TOKEN")
    if not options.url or not token:
        raise Unusable(
            f"{options.data} holds no membership yet: give --url and --token "
            "(the Fleet page of the console shows the whole command)",
            EXIT_USAGE,
        )
    hosts = _hosts(options.url, settings, remembered=None)
    hello = SelfReport(hosts=hosts, inventory=inventory, data=state.root).hello(name=options.name)
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
