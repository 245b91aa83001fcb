"""Hundreds of simulated nodes on one event loop, joined to a real broker: they take from their own queues and push to
the control plane's, in the form that Celery gives messages, without an app or a worker of Celery's.

    fleet = SimulatedFleet(nodes, redis_url)
    async with fleet:                       # runs until the block is left
        fleet.node("...").freeze()

All use one address of the broker, which must reach every queue: not the users that nodes have of their own.
"""

from __future__ import annotations

import asyncio
import base64
import heapq
import json
import time
import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any

import redis.asyncio
import structlog
from redis.exceptions import RedisError

from inference.contracts.names import CONTROL_QUEUE, node_queue
from inference.process.tasks import end, keep_running
from inference.testing.simulated_node import Sent, SimulatedNode

#: Queues that one connection waits for, and how long before it looks which nodes still listen.
QUEUES_PER_CONNECTION = 100
_WAIT_S = 1
#: Pause between two looks at which nodes are due.
_STEP_S = 0.02
#: As in the agent: reports are held back while the control plane has so many messages waiting.
BACKLOG = 1000

log = structlog.get_logger()


class SimulatedFleet:
    """reports_sent, reports_held: since the start; held because of the backlog or of a broker that was away."""

    def __init__(self, nodes: Iterable[SimulatedNode], redis_url: str, *, backlog: int = BACKLOG) -> None:
        self.nodes = list(nodes)
        self.reports_sent = 0
        self.reports_held = 0
        self._by_queue = {node_queue(node.node_id): node for node in self.nodes}
        self._by_id = {node.node_id: node for node in self.nodes}
        self._redis_url = redis_url
        self._backlog = backlog
        self._tasks: list[asyncio.Task[None]] = []
        self._tie = count()
        self._heap: list[tuple[float, int, SimulatedNode]] = []
        self._planned: dict[str, float] = {}

    def node(self, node_id: str) -> SimulatedNode:
        return self._by_id[node_id]

    async def __aenter__(self) -> SimulatedFleet:
        self._broker = redis.asyncio.Redis.from_url(self._redis_url)
        for node in self.nodes:
            node.on_due = partial(self._plan, node)
            self._plan(node)
        queues = sorted(self._by_queue)
        groups = [queues[at : at + QUEUES_PER_CONNECTION] for at in range(0, len(queues), QUEUES_PER_CONNECTION)]
        jobs = [keep_running(partial(self._receive, group)) for group in groups]
        self._tasks = [asyncio.create_task(job) for job in (keep_running(self._step_all), *jobs)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await end(self._tasks)
        await self._broker.aclose()

    # -- in ----------------------------------------------------------------------------------------

    async def _receive(self, queues: Sequence[str]) -> None:
        while True:
            heard = [queue for queue in queues if not self._by_queue[queue].is_silent]
            if not heard:
                await asyncio.sleep(_WAIT_S)
                continue
            try:
                taken: Any = await self._broker.brpop(heard, timeout=_WAIT_S)
            except (RedisError, OSError) as error:
                log.info("simulated nodes can't reach the broker", error=str(error))
                await asyncio.sleep(_WAIT_S)
                continue
            if taken is not None:
                self._deliver(self._by_queue[taken[0].decode()], taken[1])

    def _deliver(self, node: SimulatedNode, message: bytes) -> None:
        envelope = json.loads(message)
        arguments = json.loads(base64.b64decode(envelope["body"]))[0]
        node.receive(envelope["headers"]["task"], arguments)
        self._plan(node)

    # -- out ---------------------------------------------------------------------------------------

    def _plan(self, node: SimulatedNode) -> None:
        due = node.due
        if self._planned.get(node.node_id) != due:
            self._planned[node.node_id] = due
            heapq.heappush(self._heap, (due, next(self._tie), node))

    async def _step_all(self) -> None:
        while True:
            sent: list[Sent] = []
            now = time.monotonic()
            while self._heap and self._heap[0][0] <= now:
                due, _, node = heapq.heappop(self._heap)
                if self._planned.get(node.node_id) == due:
                    sent += node.step()
                    self._plan(node)
            if sent:
                await self._send(sent)
            await asyncio.sleep(_STEP_S)

    async def _send(self, sent: Sequence[Sent]) -> None:
        reports = [each for each in sent if each.task is not None]
        try:
            waiting = int(await self._broker.llen(CONTROL_QUEUE))
            room = max(0, self._backlog - waiting)
            async with self._broker.pipeline(transaction=False) as pipeline:
                for each in sent:
                    if each.task is None:
                        pipeline.lpush(each.key, each.body[0])
                        pipeline.expire(each.key, 60)
                for each in reports[:room]:
                    pipeline.lpush(CONTROL_QUEUE, message_of(each.task or "", each.body, CONTROL_QUEUE))
                await pipeline.execute()
        except (RedisError, OSError) as error:
            self.reports_held += len(reports)
            log.info("simulated reports do not arrive", error=str(error))
            return
        self.reports_sent += len(reports[:room])
        self.reports_held += len(reports[room:])


def message_of(task: str, arguments: Sequence[str], queue: str) -> bytes:
    """A call of `task` as Celery (protocol 2) puts it into a Redis list."""
    task_id = str(uuid.uuid4())
    embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    envelope = {
        "body": base64.b64encode(json.dumps([list(arguments), {}, embed]).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": task,
            "id": task_id,
            "root_id": task_id,
            "parent_id": None,
            "group": None,
            "group_index": None,
            "shadow": None,
            "eta": None,
            "expires": None,
            "retries": 0,
            "timelimit": [None, None],
            "argsrepr": "()",
            "kwargsrepr": "{}",
            "origin": "simulated",
            "ignore_result": True,
            "replaced_task_nesting": 0,
            "stamped_headers": None,
            "stamps": {},
        },
        "properties": {
            "correlation_id": task_id,
            "reply_to": task_id,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": task_id,
        },
    }
    return json.dumps(envelope).encode()
