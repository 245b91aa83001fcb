"""How one request ended, counted once, whichever way it went."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from inference.contracts.errors import TandemError
from inference.contracts.routing import WorkerRoute
from inference.contracts.timings import Counter, Latency
from inference.router.errors import ApiError
from inference.router.telling.metrics import Metrics
from inference.router.telling.windows import Telemetry
from inference.router.web.sse import ClientGone
from inference.router.workers.failures import WorkerLost

_log = structlog.get_logger()


class Outcome:
    """Opened once the whole request is here and its deployment known; closed once, by the first of `completed`,
    `close_with`, `fail` and `cancel`. received: a reading of `time.perf_counter`."""

    __slots__ = ("_closed", "_metrics", "_received", "_telemetry", "deployment", "request_id", "retries")

    def __init__(
        self, telemetry: Telemetry, metrics: Metrics, request_id: str, deployment: str, received: float
    ) -> None:
        self._telemetry = telemetry
        self._metrics = metrics
        self._received = received
        self._closed = False
        self.request_id = request_id
        self.deployment = deployment
        self.retries = 0
        self._count(Counter.RECEIVED)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Whatever ends the block early closes the record; who comes to its end has called `completed`."""
        try:
            yield
        except ApiError as error:
            self.close_with(error)
            raise
        except asyncio.CancelledError as cancelled:
            self.cancel(*cancelled.args)
            raise
        except ClientGone:
            self.cancel()
            raise
        except Exception:
            self.fail()
            raise

    def retried(self) -> None:
        """Another worker is asked."""
        self.retries += 1
        self._count(Counter.RETRIED)
        self._metrics.retries.labels(self.deployment).inc()

    def fault(self, leg: str, worker: WorkerRoute, error: TandemError, partner: WorkerRoute | None = None) -> None:
        """A worker failed, or the hand-off between two; the request may still be answered elsewhere. It counts against
        the worker's revision either way: a retry hides a bad revision from clients, not from who rolls it out."""
        self._telemetry.revision_window(self.deployment, worker).count(Counter.FAILED)
        code = "lost" if isinstance(error, WorkerLost) else error.code.value
        self._metrics.faults.labels(self.deployment, leg, code).inc()
        _log.warning(
            "a worker failed a request",
            request_id=self.request_id,
            deployment=self.deployment,
            leg=leg,
            worker=worker.worker_id,
            partner=None if partner is None else partner.worker_id,
            code=code,
            error=error.message,
        )

    def completed(self, prompt_tokens: int, by: WorkerRoute) -> float:
        """The whole answer is here. Gives how long it took, in seconds."""
        took_s = time.perf_counter() - self._received
        window = self._telemetry.window(self.deployment)
        window.observe(Latency.E2E, took_s)
        window.count(Counter.PROMPT_TOKENS, prompt_tokens)
        self._metrics.e2e.labels(self.deployment).observe(took_s)
        self._metrics.tokens.labels(self.deployment, "prompt").inc(prompt_tokens)
        self._telemetry.revision_window(self.deployment, by).count(Counter.COMPLETED)
        self._close(Counter.COMPLETED)
        return took_s

    def close_with(self, error: ApiError) -> None:
        """Refused (the client's turn, or nobody free) is told apart from failed (a worker's fault)."""
        self._close(Counter.REJECTED if error.refused else Counter.FAILED)
        _log.info(
            "rejected" if error.refused else "failed",
            request_id=self.request_id,
            deployment=self.deployment,
            status=error.status,
            code=error.code,
            error=error.message,
        )

    def fail(self) -> None:
        self._close(Counter.FAILED)

    def cancel(self, reason: str = "the client left") -> None:
        self._close(Counter.CANCELLED)
        _log.info(reason, request_id=self.request_id, deployment=self.deployment)

    def _close(self, outcome: Counter) -> None:
        """A client may leave after the answer is there, and before it has it."""
        if not self._closed:
            self._closed = True
            self._count(outcome)
            self._metrics.requests.labels(self.deployment, outcome.value).inc()

    def _count(self, counter: Counter) -> None:
        self._telemetry.window(self.deployment).count(counter)
