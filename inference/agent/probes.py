"""The agent's talk with running workers: orders to drain or serve again, and the question how they are.

Exchanges run beside the supervisor's ticks, at most one per worker at a time, so a hung worker delays nobody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from inference.agent.health import Health
from inference.agent.worker_client import NoAnswer, WorkerClient
from inference.contracts.reports import Address
from inference.contracts.worker import ProcessAnnouncement

log = structlog.get_logger()


class Prober:
    """on_answer: called on the event loop after every answer."""

    def __init__(self, client: WorkerClient, on_answer: Callable[[], None]) -> None:
        self._client = client
        self._on_answer = on_answer
        self._exchanges: dict[str, asyncio.Task[None]] = {}

    def exchange(self, said: ProcessAnnouncement, worker: Address, health: Health, *, drain: bool) -> None:
        """Ask the worker at `worker` how it is, after telling it to drain or to serve where it does the opposite.

        The answer goes to the `health` of the very process that was asked, so a late one is never taken for its
        successor's. Nothing happens while an earlier exchange with the worker is still under way.
        """
        if said.worker_id not in self._exchanges:
            work = self._exchange(said, worker, health, drain)
            self._exchanges[said.worker_id] = asyncio.get_running_loop().create_task(work)

    async def close(self) -> None:
        exchanges = list(self._exchanges.values())
        for exchange in exchanges:
            exchange.cancel()
        await asyncio.gather(*exchanges, return_exceptions=True)

    async def _exchange(self, said: ProcessAnnouncement, worker: Address, health: Health, drain: bool) -> None:
        try:
            if health.draining != drain:
                await self._order(worker, drain)
            status = await self._client.status(worker)
            if (status.worker_id, status.incarnation) != (said.worker_id, said.incarnation):
                raise NoAnswer(f"worker {status.worker_id} of incarnation {status.incarnation} answered instead")
            health.answered(status, time.monotonic())
            self._on_answer()
        except NoAnswer as error:
            health.missed(str(error))
        finally:
            del self._exchanges[said.worker_id]

    async def _order(self, worker: Address, drain: bool) -> None:
        try:
            await (self._client.drain(worker) if drain else self._client.undrain(worker))
        except NoAnswer as error:
            log.warning("order did not reach the worker; it is repeated", drain=drain, reason=str(error))
