"""Everything an agent does beside consuming its queue: one thread for the supervisor and what goes with it, and one for
reports. Started and stopped as a step of the Celery worker (`NodeStep`)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import uuid
from functools import partial
from itertools import count
from typing import Any, ClassVar

import redis.asyncio
import structlog
from celery import Celery, bootsteps
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from inference.agent import tasks
from inference.agent.app import ControlQueue
from inference.agent.config import AGENT_VERSION, Settings
from inference.agent.engines.command import EngineRegistry
from inference.agent.hosts import Hosts
from inference.agent.inventory import Inventory
from inference.agent.launcher import Launcher
from inference.agent.reporter import Reporter
from inference.agent.state_dir import StateDir
from inference.agent.supervisor import Supervisor
from inference.agent.watchdog import watch
from inference.agent.windows import WindowCarrier
from inference.agent.worker_client import WorkerClient
from inference.contracts.names import node_queue
from inference.contracts.reports import NodeReport, NodeWelcome
from inference.contracts.specs import NodeSpec
from inference.process.tasks import end, keep_running

#: Exit code when the consumer takes nothing; whoever started the agent is to start it again.
EXIT_STALLED = 75
#: Exit code when supervision itself broke down.
EXIT_BROKEN = 70

log = structlog.get_logger()


class Node:
    """This machine as a node of a control plane."""

    def __init__(
        self,
        *,
        app: Celery,
        welcome: NodeWelcome,
        hosts: Hosts,
        redis_url: str,
        state: StateDir,
        engines: EngineRegistry,
        inventory: Inventory,
        settings: Settings,
    ) -> None:
        self._settings = settings
        self._welcome = welcome
        self._hosts = hosts
        self._redis_url = redis_url
        self._inventory = inventory
        self._boot_id = uuid.uuid4().hex
        self._sequence = count(1)
        self._taken = 0
        self._control_queue = ControlQueue(app, timeout_s=settings.redis_timeout_s, backlog=settings.report_backlog)
        self._reporter = Reporter(
            build=self._report,
            send=self._control_queue.send,
            interval_s=settings.report_interval_s or welcome.report_interval_s,
            debounce_s=settings.debounce_s,
        )
        self._supervisor = Supervisor(
            node_id=welcome.node_id,
            cluster_secret=welcome.cluster_secret,
            hosts=hosts,
            state=state,
            launcher=Launcher(state, engines, hosts=hosts, environment=os.environ),
            settings=settings,
            on_change=self._reporter.changed,
        )
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        tasks.register(app, self._submit)

    def start(self) -> None:
        self._thread.start()
        self._reporter.start()

    def stop(self) -> None:
        """End supervision by the policy of the settings, then send a last report. Bounded in time."""
        self._supervisor.close()
        self._thread.join(self._settings.stop_deadline_s + 10.0)
        if self._thread.is_alive():
            log.error("some workers could not be ended")
        self._reporter.close(within_s=4 * self._settings.redis_timeout_s)
        self._control_queue.close()

    def _submit(self, spec: NodeSpec) -> bool:
        self._taken += 1
        return self._supervisor.submit(spec)

    def _run(self) -> None:
        try:
            asyncio.run(self._supervise())
        except BaseException:
            log.exception("supervision broke down; workers are left as they are")
            os._exit(EXIT_BROKEN)

    async def _supervise(self) -> None:
        settings = self._settings
        broker = redis.asyncio.Redis.from_url(
            self._redis_url,
            socket_timeout=settings.redis_timeout_s,
            socket_connect_timeout=settings.redis_timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
        async with broker, WorkerClient(self._welcome.cluster_secret, settings.window_interval_s) as client:
            carrier = WindowCarrier(
                client=client, stream=broker, ready=self._supervisor.ready, interval_s=settings.window_interval_s
            )
            watchdog = partial(
                watch,
                broker=broker,
                queue=node_queue(self._welcome.node_id),
                taken=lambda: self._taken,
                limit_s=settings.watchdog_s,
                on_stalled=_exit_stalled,
            )
            companions = [asyncio.create_task(keep_running(job)) for job in (carrier.run, watchdog)]
            try:
                await self._supervisor.run()
            finally:
                await end(companions)

    def _report(self) -> NodeReport | None:
        if not self._supervisor.settled:
            return None
        inventory = self._inventory
        return NodeReport(
            node_id=self._welcome.node_id,
            boot_id=self._boot_id,
            sequence=next(self._sequence),
            observed_generation=self._supervisor.observed_generation,
            hostname=socket.gethostname(),
            address=self._hosts.advertised,
            agent_version=AGENT_VERSION,
            devices=inventory.devices(self._supervisor.holders()),
            workers=self._supervisor.reports(),
            cpu_cores=inventory.cpu_cores,
            memory_total=inventory.memory_total,
            memory_used=inventory.memory_used,
        )


class NodeStep(bootsteps.StartStopStep):
    """Ties a `Node` to the life of the Celery worker: started once its pool runs, before it talks to the broker (so
    workers are supervised while Redis is away), stopped before its pool."""

    requires: ClassVar[Any] = ("celery.worker.components:Pool",)
    node: ClassVar[Node]

    def start(self, worker: Any) -> None:
        # Celery's own handler of SIGHUP restarts the program by its path, which a module run with -m does not survive;
        # that of SIGINT ends with a failure, though Ctrl-C is an ordinary way to stop an agent.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGTERM))
        self.node.start()

    def stop(self, worker: Any) -> None:
        self.node.stop()

    def terminate(self, worker: Any) -> None:
        self.node.stop()


def step_for(node: Node) -> type[NodeStep]:
    """The step class for one node (Celery wants a class and makes the instance itself)."""
    return type("NodeStep", (NodeStep,), {"node": node})


def _exit_stalled() -> None:
    """Leave at once: a consumer in this state may also not end when asked to. The workers live on and are adopted."""
    os._exit(EXIT_STALLED)
