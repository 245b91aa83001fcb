"""Questions that any worker of a deployment can answer, whatever its role."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from inference.contracts.errors import BUSY_ERRORS, ErrorCode, TandemError
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.router.config import Limits
from inference.router.errors import clients_fault, unavailable, workers_fault
from inference.router.travel.outcome import Outcome
from inference.router.travel.tried import ELSEWHERE, PASSED_ON

T = TypeVar("T")


class AnyWorker:
    """Asks one worker, and others when it does not answer; those that are in sight first."""

    def __init__(self, limits: Limits, rng: random.Random | None = None) -> None:
        self._limits = limits
        self._rng = rng or random.Random()  # noqa: S311 - spreads calls over workers

    async def ask(
        self,
        deployment: DeploymentRoute,
        stage: str,
        ask: Callable[[WorkerRoute], Awaitable[T]],
        outcome: Outcome | None = None,
    ) -> T:
        """stage: what is asked for, as it is told. outcome: learns of further tries and of workers that failed.

        Raises:
            ApiError: a worker says that only the client can mend it; all that were asked are busy, or failed.
        """
        workers = list(deployment.workers)
        self._rng.shuffle(workers)
        workers.sort(key=lambda worker: not worker.in_sight)
        asked = workers[: self._limits.max_attempts]
        failed: TandemError | None = None
        for worker in asked:
            if failed is not None and outcome is not None:
                outcome.retried()
            try:
                return await ask(worker)
            except TandemError as error:
                if error.code in PASSED_ON:
                    raise clients_fault(error) from error
                if outcome is not None and error.code not in ELSEWHERE:
                    outcome.fault(stage, worker, error)
                failed = error
        if failed is None or failed.code in BUSY_ERRORS:
            code = ErrorCode.NOT_READY if failed is None else failed.code
            text = f"No worker of {deployment.name!r} can do this now."
            raise unavailable(text, self._limits.retry_after_s, code)
        raise workers_fault(stage, failed.code, len(asked))
