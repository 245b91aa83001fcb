"""The record of one request: its clock readings, where it went, how it ended, and what telemetry learns of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from inference.contracts.errors import TandemError
from inference.contracts.generation import Finished, HandoffDone, TokenDelta, WorkerTimings
from inference.contracts.routing import WorkerRoute
from inference.contracts.states import PrefillPath
from inference.contracts.timings import Counter, Latency, RequestTiming
from inference.router.telling.metrics import Metrics
from inference.router.telling.windows import Tally, Telemetry
from inference.router.travel.outcome import Outcome
from inference.router.travel.timing import Stopwatch, segments

_log = structlog.get_logger()


@dataclass(slots=True)
class Route:
    """Where the latest attempt goes. prefill: None when the answering worker reads the prompt itself."""

    answering: WorkerRoute
    prefill: WorkerRoute | None

    @property
    def path(self) -> PrefillPath:
        return PrefillPath.LOCAL if self.prefill is None else PrefillPath.HANDOFF


@dataclass(slots=True, frozen=True)
class _Reading:
    """Who read the prompt of an answer that others went on with. by: the prefill worker, None for the answering one."""

    path: PrefillPath
    by: WorkerRoute | None
    timings: WorkerTimings


class RequestRecord(Outcome):
    """Of a request for an answer; `complete` is its `completed`.

    prompt_tokens, answer_tokens: as usage would tell them, as far as the answer came.
    """

    __slots__ = (
        "_faulted",
        "_reading",
        "_tally",
        "_ttft_observed",
        "answer_tokens",
        "handoff",
        "prompt_tokens",
        "route",
        "watch",
    )

    def __init__(
        self, telemetry: Telemetry, metrics: Metrics, request_id: str, deployment: str, received: float
    ) -> None:
        super().__init__(telemetry, metrics, request_id, deployment, received)
        self.watch = Stopwatch(received)
        self.prompt_tokens = 0
        self.answer_tokens = 0
        self._ttft_observed = False
        self._faulted = False
        self.route: Route | None = None
        self._tally: Tally
        self.handoff: HandoffDone | None = None
        self._reading: _Reading | None = None

    def begin_attempt(self) -> None:
        if self.watch.first_attempt is not None:
            self.retried()
        self.route = self.handoff = None
        self.watch.begin_attempt(time.perf_counter())

    def waited(self, began: float) -> None:
        """Every worker was busy since `began`, a reading of `time.perf_counter`."""
        self.watch.waited(time.perf_counter() - began)

    def goes_on(self) -> None:
        """Another worker goes on with the answer. Who read the prompt, and when, stays as it is."""
        self.retried()
        self._metrics.continuations.labels(self.deployment).inc()
        if self._reading is None:
            timings = WorkerTimings() if self.handoff is None else self.handoff.timings
            self._reading = _Reading(self._taken().path, self._taken().prefill, timings)

    def reserved(self) -> None:
        self.watch.reserved = time.perf_counter()

    def dispatched(self, route: Route) -> None:
        self.route = route
        self._tally = self._telemetry.tally(self.deployment, route.answering)
        self._metrics.prefills.labels(self.deployment, route.path).inc()

    def saw_tokens(self, deltas: Sequence[TokenDelta]) -> None:
        """New tokens that came at once, with the text that the client gets now. Of several answers, which are written
        side by side, the first is timed."""
        now = time.perf_counter()
        route, watch, tally = self._taken(), self.watch, self._tally
        if tally.closed:
            tally = self._tally = self._telemetry.tally(self.deployment, route.answering)
        count = timed = 0
        for delta in deltas:
            count += len(delta.token_ids)
            timed += 0 if delta.answer else len(delta.token_ids)
        tally.tokens += count
        if timed:
            first_gap_known = watch.second_token is not None
            gap = watch.saw_tokens(timed, now)
            if gap is not None:
                tally.gaps.add(gap)
            if timed > 1:
                tally.gaps.add(0.0, timed - 1)
            if not first_gap_known and watch.first_gap_s is not None:
                self._telemetry.observe(self.deployment, Latency.FIRST_GAP, watch.first_gap_s, route.answering)
                self._metrics.first_gap.labels(self.deployment).observe(watch.first_gap_s)
        if watch.first_text is None and any(delta.text for delta in deltas):
            watch.first_text = now
            self._observe_ttft(now - watch.received, route.prefill or route.answering)

    def _observe_ttft(self, seconds: float, maker: WorkerRoute) -> None:
        """At once, not when the answer ends; and once, even when a whole answer is begun anew."""
        if not self._ttft_observed:
            self._ttft_observed = True
            self._telemetry.observe(self.deployment, Latency.TTFT, seconds, maker)
            self._metrics.ttft.labels(self.deployment).observe(seconds)

    def handed_off(self, done: HandoffDone) -> None:
        """Of an answer that several workers wrote the first hand-off counts: that of the prompt."""
        if self._reading is None:
            self.handoff = done

    def fault(self, leg: str, worker: WorkerRoute, error: TandemError, partner: WorkerRoute | None = None) -> None:
        self._faulted = True
        pair = (self.route.answering, self.route.prefill) if self.route is not None else ()
        partner = next((each for each in pair if each is not None and each is not worker), None)
        super().fault(leg, worker, error, partner)

    def used(self, prompt_tokens: int, answer_tokens: int) -> None:
        """So many tokens by now."""
        self.prompt_tokens, self.answer_tokens = prompt_tokens, answer_tokens

    def complete(self, finished: Finished, answered_here: bool) -> RequestTiming:
        """answered_here: the closing event came from the answering worker, not from the prefill worker."""
        self.used(finished.prompt_tokens, finished.completion_tokens)
        route = self._taken()
        watch = self.watch
        if watch.tpot_s is not None:
            self._telemetry.observe(self.deployment, Latency.TPOT, watch.tpot_s, route.answering)
            self._metrics.tpot.labels(self.deployment).observe(watch.tpot_s)
        self._metrics.tokens.labels(self.deployment, "cached").inc(finished.cached_tokens)
        self._metrics.tokens.labels(self.deployment, "output").inc(finished.completion_tokens)
        took_s = self.completed(finished.prompt_tokens, route.answering)
        timing = self._timing(finished, route, answered_here, took_s)
        _log.info(
            "answered",
            request_id=self.request_id,
            deployment=self.deployment,
            path=timing.path.value,
            prefill_worker=timing.prefill_worker,
            decode_worker=timing.decode_worker,
            prompt_tokens=timing.prompt_tokens,
            completion_tokens=timing.completion_tokens,
            ttft_s=timing.ttft_s,
            e2e_s=timing.e2e_s,
            retries=timing.retries,
        )
        return timing

    def _timing(self, finished: Finished, route: Route, answered_here: bool, took_s: float) -> RequestTiming:
        watch, handoff, path, prefill = self.watch, self.handoff, route.path, route.prefill
        if self._reading is not None:
            path, prefill, reader = self._reading.path, self._reading.by, self._reading.timings
        elif route.prefill is None or not answered_here:
            reader = finished.timings
        else:
            reader = handoff.timings if handoff is not None else WorkerTimings()
        return RequestTiming(
            request_id=self.request_id,
            deployment=self.deployment,
            path=path,
            prefill_worker=None if prefill is None else prefill.worker_id,
            decode_worker=route.answering.worker_id,
            prompt_tokens=finished.prompt_tokens,
            cached_tokens=finished.cached_tokens,
            completion_tokens=finished.completion_tokens,
            finish_reason=finished.reason.value,
            ttft_s=watch.ttft_s,
            tpot_s=watch.tpot_s,
            e2e_s=took_s,
            segments=segments(watch, reader),
            first_gap_s=watch.first_gap_s,
            handoff_s=None if handoff is None else handoff.timings.handoff_s,
            handoff_bytes=None if handoff is None else handoff.bytes,
            decode_wait_s=finished.timings.decode_wait_s if answered_here else None,
            retries=self.retries,
            transfer_s=None if handoff is None else handoff.transfer_s,
            transport=None if handoff is None else handoff.transport,
        )

    def _taken(self) -> Route:
        if self.route is None:
            raise RuntimeError(f"request {self.request_id} has tokens without having been dispatched")
        return self.route

    def _close(self, outcome: Counter) -> None:
        if outcome is Counter.FAILED and self.route is not None and not (self._faulted or self._closed):
            self._telemetry.revision_window(self.deployment, self.route.answering).count(outcome)
        super()._close(outcome)
