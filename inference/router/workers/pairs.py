"""Tries the hand-off between workers before requests depend on it: each pair once, when it is new, one after another.

What comes out is told (log, metrics) and steers nothing: pairs of unequal fingerprints are never made, and one whose
hand-off fails for another reason is left by a request's retry.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import structlog

from inference.contracts.errors import TandemError
from inference.contracts.reports import Address
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.states import Role
from inference.contracts.worker import PairReport, PreflightOrder

#: Pairs that are tried of one deployment: those between eight prefill and eight decode workers.
PAIRS_MAX = 64
LOOK_S = 2.0
#: A pair that could not be used, or tried, is tried again after so long.
AGAIN_S = 60.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Pair:
    """Names a prefill and a decode worker of one deployment, each in one incarnation: a new process is a new pair."""

    deployment: str
    prefill: str
    decode: str
    incarnations: tuple[str, str]
    target: Address


class Pairs:
    """deployments: of the routing table in use. ask: has a prefill worker try a hand-off."""

    def __init__(
        self,
        deployments: Callable[[], Iterable[DeploymentRoute]],
        ask: Callable[[WorkerRoute, PreflightOrder], Awaitable[PairReport]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deployments = deployments
        self._ask = ask
        self._clock = clock
        self._known: dict[Pair, PairReport] = {}
        self._again_at: dict[Pair, float] = {}

    def known(self) -> Mapping[Pair, PairReport]:
        """What was found out of the pairs that there are now."""
        return {pair: self._known[pair] for pair, _ in self._there() if pair in self._known}

    async def run(self) -> None:
        """Try what is new, for ever."""
        while True:
            await asyncio.sleep(LOOK_S)  # first, as a table that was kept from before may name workers that are gone
            await self.try_new()

    async def try_new(self) -> None:
        """Try every pair whose turn it is; forget those that are gone."""
        there = dict(self._there())
        self._known = {pair: report for pair, report in self._known.items() if pair in there}
        self._again_at = {pair: at for pair, at in self._again_at.items() if pair in there}
        for pair, prefill in there.items():
            if self._clock() >= self._again_at.get(pair, 0 if pair not in self._known else float("inf")):
                await self._try(pair, prefill)

    async def _try(self, pair: Pair, prefill: WorkerRoute) -> None:
        told = {"deployment": pair.deployment, "prefill": pair.prefill, "decode": pair.decode}
        self._again_at[pair] = self._clock() + AGAIN_S
        try:
            report = await self._ask(prefill, PreflightOrder(target=pair.target))
        except TandemError as error:
            _log.info("hand-off could not be tried", **told, reason=error.message)
            return
        self._known[pair] = report
        if report.problems:
            _log.warning("hand-off does not work", **told, problems=report.problems)
            return
        del self._again_at[pair]
        _log.info(
            "hand-off works",
            **told,
            transport=report.transport,
            missed=report.missed,
            bytes_per_s=report.bytes_per_s,
            latency_s=report.latency_s,
        )

    def _there(self) -> Iterator[tuple[Pair, WorkerRoute]]:
        for deployment in self._deployments():
            left = PAIRS_MAX
            prefills = [worker for worker in deployment.workers if worker.role is Role.PREFILL and worker.in_sight]
            decodes = [worker for worker in deployment.workers if worker.role is Role.DECODE and worker.in_sight]
            for prefill in prefills:
                for decode in decodes:
                    if decode.transfer is not None and prefill.fingerprint == decode.fingerprint and left:
                        left -= 1
                        incarnations = (prefill.incarnation, decode.incarnation)
                        names = (deployment.name, prefill.worker_id, decode.worker_id)
                        yield Pair(*names, incarnations, decode.transfer), prefill
