"""Keeps what is known of workers fresh: those that said nothing of their load for a while are asked.

Workers say what they have to do with each ticket and at the end of each stream, so only those that this router sends
little to are asked, and of very many only so many a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from inference.contracts.errors import TandemError
from inference.contracts.routing import RoutingTable, WorkerRoute
from inference.router.choosing.knowledge import Knowledge
from inference.router.choosing.standing import key_of
from inference.router.workers.client import WorkerClient

_AT_ONCE = 16
_MOST_A_SECOND = 200
_log = structlog.get_logger()


class Figures:
    """older_s: what is so old is asked for. table: the routing table as it is now."""

    def __init__(
        self,
        client: WorkerClient,
        knowledge: Knowledge,
        table: Callable[[], RoutingTable | None],
        older_s: float,
    ) -> None:
        self._client = client
        self._knowledge = knowledge
        self._table = table
        self._older_s = older_s

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            await asyncio.sleep(self._older_s)
            await self.ask_all()

    async def ask_all(self) -> None:
        """Ask whoever is due."""
        table = self._table()
        if table is None:
            return
        workers = {key_of(worker): worker for entry in table.deployments for worker in entry.workers}
        now = time.monotonic()
        told = {key: standing.told_at for key, standing in self._knowledge.standings.items()}
        due = [
            (at, number, workers[key])
            for number, key in enumerate(workers)
            if (at := told.get(key) or 0.0) <= now - self._older_s
        ]
        most = max(1, int(_MOST_A_SECOND * self._older_s))
        turns = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(self._ask(worker, turns) for _, _, worker in sorted(due)[:most]))

    async def _ask(self, worker: WorkerRoute, turns: asyncio.Semaphore) -> None:
        """What does not answer is left to requests and the control plane to judge."""
        async with turns:
            try:
                status = await self._client.status(worker)
            except TandemError as error:
                _log.debug("a worker's load is not known", worker=worker.worker_id, error=str(error))
                return
        if (status.worker_id, status.incarnation) == key_of(worker):
            self._knowledge.told(key_of(worker), status.load, time.monotonic())
