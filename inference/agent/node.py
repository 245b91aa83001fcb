"""Everything an agent does beside consuming its queue: one thread for the supervisor and what goes with it, and one for
reports. Started and stopped as a step of the Celery worker (`NodeStep`)."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import threading
from functools import partial
from typing import Any, ClassVar

import redis
import redis.asyncio
import structlog
from celery import Celery, bootsteps
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from inference.agent import tasks
from inference.agent.app import ControlQueue
from inference.agent.config import Settings
from inference.agent.control.hello import Greeter
from inference.agent.control.inbox import Inbox
from inference.agent.control.log_reply import send_log_reply
from inference.agent.control.membership import LiveMembership
from inference.agent.control.reporter import NotAdmitted, Reporter
from inference.agent.control.self_report import SelfReport
from inference.agent.engines.command import EngineRegistry
from inference.agent.hosts import Hosts
from inference.agent.links import Links
from inference.agent.state_dir import Membership, StateDir
from inference.agent.weights.keeper import WeightsKeeper
from inference.agent.weights.store import WeightsStore
from inference.agent.workers.client import WorkerClient
from inference.agent.workers.launcher import Launcher
from inference.agent.workers.supervisor import Supervisor
from inference.agent.workers.windows import WindowCarrier
from inference.broker.watchdog import EXIT_START_AGAIN, watch
from inference.contracts.names import TASK_RECORD_NODE_REPORT, node_queue
from inference.contracts.reports import NodeReport
from inference.contracts.specs import LogRequest, NodeSpec
from inference.process.tasks import end, keep_running

#: Exit code when supervision itself broke down.
EXIT_BROKEN = 70

log = structlog.get_logger()


class Node:
    """This machine as a node of a control plane. greeted: whether the control plane has been heard at this start.
    worker_tls: how its workers are called; None: in clear."""

    def __init__(
        self,
        *,
        app: Celery,
        membership: Membership,
        greeted: bool,
        hosts: Hosts,
        state: StateDir,
        engines: EngineRegistry,
        says: SelfReport,
        settings: Settings,
        worker_tls: ssl.SSLContext | None,
    ) -> None:
        self._worker_tls = worker_tls
        self._hosts = hosts
        self._settings = settings
        self._state = state
        self._says = says
        self._member = LiveMembership(membership, state=state, settings=settings, on_broker_changed=_start_again)
        self._node_id = membership.welcome.node_id
        self._control_queue = ControlQueue(app, timeout_s=settings.redis_timeout_s, backlog=settings.report_backlog)
        self._reporter = Reporter(
            build=self._report,
            send=self._send,
            interval_s=lambda: self._member.report_interval_s,
            debounce_s=settings.debounce_s,
        )
        self._greeter = Greeter(
            membership=lambda: self._member.now,
            build=partial(says.hello, node_id=self._node_id),
            on_welcome=self._member.learn,
            on_retired=self._run_nothing,
            answered=greeted,
        )
        self._supervisor = Supervisor(
            node_id=self._node_id,
            cluster_secret=membership.welcome.cluster_secret,
            hosts=hosts,
            state=state,
            launcher=Launcher(state, engines, hosts=hosts, environment=os.environ),
            settings=settings,
            on_change=self._reporter.changed,
            devices=says.devices,
            worker_tls=worker_tls,
        )
        self._links = Links(
            hosts=hosts,
            secret_file=state.secret_file,
            folder=state.root,
            environment=os.environ,
            on_change=self._reporter.changed,
        )
        self._weights = WeightsKeeper(
            WeightsStore(state.weights),
            folder=state.root,
            environment=os.environ,
            on_change=self._reporter.changed,
        )
        known = state.spec
        if known is not None and known.node_id == self._node_id:
            self._want_beside_workers(known)
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._inbox = Inbox(seal=self._member.seal, submit=self._submit, send_log=self._send_log)
        tasks.register(app, self._inbox)

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

    # -- messages --------------------------------------------------------------------------------

    def _submit(self, spec: NodeSpec) -> bool:
        new = self._supervisor.submit(spec)
        if new:
            self._member.asked_interval_s = spec.report_interval_s
            self._want_beside_workers(spec)
        return new

    def _run_nothing(self) -> None:
        """Retired: nobody sends specs any more, so this one is of our own making. Remembered, so that the next start
        runs nothing either."""
        known = self._state.spec
        if known is None or known.workers or known.weights or known.links:
            generation = known.generation + 1 if known is not None else 1
            self._submit(NodeSpec(node_id=self._node_id, generation=generation, workers=()))

    def _want_beside_workers(self, spec: NodeSpec) -> None:
        self._links.want(spec.links)
        self._weights.want(spec)

    def _send_log(self, request: LogRequest) -> None:
        timeout = self._settings.redis_timeout_s
        with redis.Redis.from_url(
            self._member.redis_url, socket_timeout=timeout, socket_connect_timeout=timeout
        ) as broker:
            send_log_reply(broker, self._state, request)

    # -- reports ---------------------------------------------------------------------------------

    def _send(self, report: str) -> None:
        try:
            self._control_queue.send(report, self._member.seal.code(TASK_RECORD_NODE_REPORT, report))
        except NotAdmitted:
            self._greeter.again()
            raise

    def _report(self) -> NodeReport | None:
        if not self._supervisor.settled:
            return None
        return self._says.report(
            node_id=self._node_id,
            observed_generation=self._supervisor.observed_generation,
            holders=self._supervisor.holders(),
            workers=self._supervisor.reports(),
            weights=self._weights.reports(),
            links=self._links.reports(),
            refused_spec=self._supervisor.refused_spec,
        )

    # -- the supervisor's thread -----------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._supervise())
        except BaseException:
            log.exception("supervision broke down; workers are left as they are")
            os._exit(EXIT_BROKEN)

    async def _supervise(self) -> None:
        settings = self._settings
        broker = redis.asyncio.Redis.from_url(
            self._member.redis_url,
            socket_timeout=settings.redis_timeout_s,
            socket_connect_timeout=settings.redis_timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
        secret = self._member.now.welcome.cluster_secret
        caller = WorkerClient(secret, settings.window_interval_s, tls=self._worker_tls, named=self._hosts.advertised)
        async with broker, caller as client:
            carrier = WindowCarrier(
                client=client, stream=broker, ready=self._supervisor.ready, interval_s=settings.window_interval_s
            )
            watchdog = partial(
                watch,
                broker=broker,
                queue=node_queue(self._node_id),
                taken=lambda: self._inbox.taken,
                limit_s=settings.watchdog_s,
                on_stalled=_start_again,
            )
            jobs = (carrier.run, watchdog, self._greeter.run, self._links.run, self._weights.run)
            companions = [asyncio.create_task(keep_running(job)) for job in jobs]
            try:
                await self._supervisor.run()
            finally:
                await end(companions)


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
        if worker.exitcode:
            log.error("the consumer of the queue broke down; workers serve on until the agent is started again")
            _start_again()
        self.node.stop()

    def terminate(self, worker: Any) -> None:
        self.node.stop()


def step_for(node: Node) -> type[NodeStep]:
    """The step class for one node (Celery wants a class and makes the instance itself)."""
    return type("NodeStep", (NodeStep,), {"node": node})


def _start_again() -> None:
    """Leave at once, to be started again: the consumer takes nothing, or the broker is reached in another way from now
    on. A consumer in this state may also not end when asked to. The workers live on and are adopted."""
    os._exit(EXIT_START_AGAIN)
