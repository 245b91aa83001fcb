"""The Celery side of an agent: an app on the node's own queue, and the way reports go out.

Messages are acknowledged when taken (early ack): specs are repeated by the control plane's sweep, and late
acknowledgement over Redis can kill a worker whose connection breaks. Nothing here waits for results, talks to other
workers, or reads a clock of another machine, so messages carry no expiry times.

A node's broker user may read its own queue and the bindings of it, and append to the control plane's queue, to the
windows and to its own log replies; nothing else.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from inference.agent.control.reporter import NotAdmitted, SendFailed
from inference.broker.tls import broker_tls
from inference.contracts.names import CONTROL_QUEUE, TASK_RECORD_NODE_REPORT, node_queue

_REFUSALS = (AuthenticationError, NoPermissionError)


def make_app(redis_url: str, node_id: str) -> Celery:
    """The agent's app. fixups=[]: a DJANGO_SETTINGS_MODULE in the environment must not pull the database layer in."""
    app = Celery("inference.agent", broker=redis_url, set_as_current=False, fixups=[])
    app.conf.update(
        broker_use_ssl=broker_tls(redis_url),
        accept_content=["json"],
        task_serializer="json",
        result_backend=None,
        task_ignore_result=True,
        task_acks_late=False,
        task_default_queue=node_queue(node_id),
        worker_prefetch_multiplier=1,
        worker_concurrency=1,
        worker_pool="threads",
        worker_enable_remote_control=False,
        worker_consumer="inference.broker.consumer:CarefulConsumer",
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "socket_connect_timeout": 5,
            "socket_timeout": 20,
            "socket_keepalive": True,
            # Messages are acknowledged when taken, so none is put aside under names that all consumers share (and no
            # script is needed to guard those, which a node's broker user may not run).
            "ack_emulation": False,
        },
        enable_utc=True,
        timezone="UTC",
    )
    return app


def make_worker(app: Celery, node_id: str) -> Any:
    """The Celery worker of this process; `start` blocks until it is told to end, `exitcode` says how it ended."""
    return app.Worker(
        hostname=f"agent@{node_id}",
        queues=[node_queue(node_id)],
        loglevel="INFO",
        without_mingle=True,
        without_gossip=True,
        without_heartbeat=True,
        quiet=True,
    )


class ControlQueue:
    """Sends reports to the control plane, each with one short try: the next report is never far.

    timeout_s: of any one network operation. backlog: messages that may wait for the control plane before reports are
    held back, so that a control worker which was down for long does not come back to a flood of old ones.
    Used from one thread.
    """

    def __init__(self, app: Celery, *, timeout_s: float, backlog: int) -> None:
        self._app = app
        self._backlog = backlog
        self._options = {
            "socket_connect_timeout": timeout_s,
            "socket_timeout": timeout_s,
            "max_retries": 0,
        }
        self._connection: Any = None  # kombu's Connection, which is typed in parts only

    def send(self, report: str, code: str) -> None:
        """code: see `Seal.code`.

        Raises:
            NotAdmitted: the broker does not take this node's credentials.
            SendFailed: the broker can't be reached, or the control plane is far behind.
        """
        try:
            connection = self._connected()
            waiting = connection.default_channel.client.llen(CONTROL_QUEUE)
            if waiting >= self._backlog:
                raise SendFailed(f"{waiting} messages wait for the control plane already")
            self._app.send_task(
                TASK_RECORD_NODE_REPORT,
                args=[report, code],
                queue=CONTROL_QUEUE,
                declare=[],  # the control plane declares its queue; a node may only append to it
                connection=connection,
                retry=False,
                ignore_result=True,
            )
        except (OperationalError, RedisError, OSError) as error:
            self.close()
            refused = isinstance(error, _REFUSALS) or isinstance(error.__cause__, _REFUSALS)
            raise (NotAdmitted if refused else SendFailed)(str(error) or type(error).__name__) from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = self._app.connection_for_write(transport_options=self._options)
        return self._connection
