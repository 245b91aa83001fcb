"""The agent's talk with running workers: orders to drain, to serve again or to change their role, and the question how
they are.

Exchanges run beside the supervisor's ticks, at most one per worker at a time, so a hung worker delays nobody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from inference.agent.workers.client import NoAnswer, SwitchRefused, WorkerClient
from inference.agent.workers.health import Health
from inference.contracts.reports import Address
from inference.contracts.worker import ProcessAnnouncement, RoleOrder, WorkerStatus

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Wish:
    """What a worker is told until its answers show it. drain: to take nothing new. become: once it drains."""

    drain: bool = False
    become: RoleOrder | None = None


class Prober:
    """on_answer: called on the event loop after every answer. switch_s: longest that a change of role may take."""

    def __init__(self, client: WorkerClient, on_answer: Callable[[], None], switch_s: float) -> None:
        self._client = client
        self._on_answer = on_answer
        self._switch_s = switch_s
        self._exchanges: dict[str, asyncio.Task[None]] = {}

    def exchange(self, said: ProcessAnnouncement, worker: Address, health: Health, wish: Wish) -> bool:
        """Ask the worker at `worker` how it is, after telling it what it does not do yet.

        The answer goes to the `health` of the very process that was asked, so a late one is never taken for its
        successor's. Nothing happens, and False is returned, while an earlier exchange with it is still under way.
        """
        if said.worker_id in self._exchanges:
            return False
        work = self._exchange(said, worker, health, wish)
        self._exchanges[said.worker_id] = asyncio.get_running_loop().create_task(work)
        return True

    async def close(self) -> None:
        exchanges = list(self._exchanges.values())
        for exchange in exchanges:
            exchange.cancel()
        await asyncio.gather(*exchanges, return_exceptions=True)

    async def _exchange(self, said: ProcessAnnouncement, worker: Address, health: Health, wish: Wish) -> None:
        try:
            status = await self._tell(worker, health, wish)
            if (status.worker_id, status.incarnation) != (said.worker_id, said.incarnation):
                raise NoAnswer(f"worker {status.worker_id} of incarnation {status.incarnation} answered instead")
            health.answered(status, time.monotonic())
            self._on_answer()
        except SwitchRefused as error:
            health.refused = str(error)
            self._on_answer()
        except NoAnswer as error:
            health.missed(str(error))
        finally:
            del self._exchanges[said.worker_id]

    async def _tell(self, worker: Address, health: Health, wish: Wish) -> WorkerStatus:
        order = wish.become
        if health.draining != wish.drain:
            await self._order(worker, wish.drain)
        elif order is not None and health.role is not order.role:
            return await self._client.switch(worker, order, self._switch_s)
        return await self._client.status(worker)

    async def _order(self, worker: Address, drain: bool) -> None:
        try:
            await (self._client.drain(worker) if drain else self._client.undrain(worker))
        except NoAnswer as error:
            log.warning("order did not reach the worker; it is repeated", drain=drain, reason=str(error))
