"""The engine's thread: plan a step, run it, tell the sinks, again."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import structlog
import torch

from inference.contracts.errors import CLIENT_ERRORS, ErrorCode, TandemError
from inference.contracts.timings import Counter, Latency, Window
from inference.engine.interface import KVHandle, Progress, Sink
from inference.engine.kv_cache import KVCache
from inference.engine.model_runner import ModelRunner
from inference.engine.reservations import Reservations
from inference.engine.sampling.sampled import Sampled
from inference.engine.scheduler import Chunk, Scheduler
from inference.engine.sequence import Sequence
from inference.engine.step import StepOutcome, StepRunner

_IDLE_S = 0.2
_STOP_S = 5.0

#: Steps in a row in which not one request could be computed: the device or the model is broken, not a request.
_HOPELESS_STEPS = 3

log = structlog.get_logger()


class BatchLoop:
    """Runs requests in one thread. Every method may be called from any thread."""

    def __init__(
        self,
        runner: ModelRunner,
        cache: KVCache,
        reservations: Reservations,
        scheduler: Scheduler,
        prepare_thread: Callable[[], None],
    ) -> None:
        self._steps = StepRunner(runner, cache, reservations)
        self._reservations = reservations
        self._scheduler = scheduler
        self._prepare_thread = prepare_thread
        self._changed = threading.Condition()  # guards the scheduler, the figures and the flags below
        self._stopping = False
        self._failure: str | None = None
        self._failed_steps = 0
        self._measured = Window(second=0, source="", deployment="")
        self._turned = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # -- from other threads ----------------------------------------------------------------------

    def start(self) -> None:
        self._turned = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; requests that are left get `failed`. Idempotent."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_STOP_S)
        self._fail_all(TandemError(ErrorCode.ENGINE_FAILED, "the engine was stopped"))

    @property
    def failure(self) -> str | None:
        return self._failure

    def heartbeat_age(self) -> float:
        return math.inf if self._failure else time.monotonic() - self._turned

    def submit(self, *answers: Sequence) -> None:
        """Queue the answers of one request, which share a handle.

        Raises:
            TandemError(ENGINE_FAILED): the loop has ended.
            ValueError: a request is running on their handle.
        """
        with self._changed:
            if self._failure or self._stopping:
                raise TandemError(ErrorCode.ENGINE_FAILED, self._failure or "the engine was stopped")
            if any(self._on(sequence.handle) for sequence in answers):
                raise ValueError(f"a request is running on KV handle {answers[0].handle.handle_id}")
            for sequence in answers:
                self._scheduler.add(sequence)
            self._changed.notify()

    def abort(self, handle: KVHandle) -> None:
        """Forget the request on `handle`. Its sink hears nothing any more, once a call under way has returned."""
        self._drop(handle)

    def wake(self) -> None:
        """There are copies to make."""
        with self._changed:
            self._changed.notify()

    def queue(self) -> tuple[int, int, int]:
        """Requests running, requests waiting to start, and prompt tokens not yet computed."""
        with self._changed:
            running, waiting = self._scheduler.running, self._scheduler.waiting
            started = sum(sequence.started for sequence in running)
            unread = sum(sequence.unread for sequence in (*running, *waiting))
            return started, len(running) + len(waiting) - started, unread

    def drain_window(self, window: Window) -> None:
        """See `Engine.drain_window`."""
        with self._changed:
            measured, self._measured = self._measured, Window(second=0, source="", deployment="")
        window.absorb(measured)

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        self._prepare_thread()
        with torch.inference_mode():
            try:
                while (chunks := self._plan()) is not None:
                    self._steps.copy_shared()
                    if chunks:
                        self._step(chunks)
            except Exception as error:
                self._die(error)

    def _plan(self) -> list[Chunk] | None:
        """Wait for work; None when the loop is to end."""
        with self._changed:
            while not self._stopping and not self._failure:
                self._turned = time.monotonic()
                chunks = self._scheduler.plan()
                if chunks or self._reservations.copies_are_due:
                    return chunks
                self._changed.wait(_IDLE_S)
            return None

    def _step(self, chunks: list[Chunk]) -> None:
        began = time.monotonic()
        for chunk in chunks:
            self._begin(chunk.sequence)
        try:
            outcome = self._steps.run(chunks, self._layer_teller(chunks))
            self._failed_steps = 0
        except Exception as error:
            self._recover(chunks, error)
            return
        seconds = time.monotonic() - began
        with self._changed:
            self._measured.observe(Latency.STEP, seconds)
            self._scheduler.measured(chunks, seconds)
        self._record(chunks, outcome)

    def _begin(self, sequence: Sequence) -> None:
        if sequence.started:
            return
        sequence.started = True
        self._tell(sequence, lambda sink: sink.started())
        if sequence.reading and sequence.computed:
            self._count(Counter.CACHED_TOKENS, sequence.computed)
            if sequence.report_progress:
                self._tell_progress(sequence, Progress(0, sequence.computed, done=False))

    def _layer_teller(self, chunks: list[Chunk]) -> Callable[[int], None] | None:
        """Tells the sinks that want to hear of each layer, once: when a step is repeated, of those that are left."""
        told = [chunk for chunk in chunks if chunk.sequence.by_layer and chunk.sequence.reading]
        if not told:
            return None

        def tell(layer: int) -> None:
            for chunk in told:
                sequence = chunk.sequence
                if layer == sequence.layers_told and self._is_here(sequence):
                    sequence.layers_told += 1
                    last = chunk.end == sequence.prompt_length
                    self._tell_progress(sequence, Progress(chunk.start, chunk.end, last, range(layer, layer + 1)))

        return tell

    def _record(self, chunks: list[Chunk], outcome: StepOutcome) -> None:
        """Move the sequences on, and tell their sinks."""
        for sequence in outcome.released:
            self._drop(sequence.handle)
        for chunk in chunks:
            if self._is_here(chunk.sequence):
                self._move_on(chunk, outcome.tokens)

    def _move_on(self, chunk: Chunk, tokens: dict[Sequence, Sampled]) -> None:
        sequence = chunk.sequence
        was_reading, sequence.computed = sequence.reading, chunk.end
        if sequence.shares:
            self._reservations.offer(sequence.handle, sequence.token_ids, sequence.computed, sequence.answer)
        siblings = sequence.siblings if was_reading and not sequence.reading else []
        if was_reading:
            self._record_reading(chunk)
        for sibling in siblings:
            self._start_beside(sequence, sibling)
        for answer in (sequence, *siblings):
            if answer in tokens and self._is_here(answer):
                self._deliver(answer, tokens[answer])

    def _record_reading(self, chunk: Chunk) -> None:
        sequence = chunk.sequence
        self._count(Counter.PROMPT_TOKENS, chunk.end - chunk.start)
        if sequence.report_progress and not sequence.layers_told:
            self._tell_progress(sequence, Progress(chunk.start, chunk.end, done=not sequence.reading))
        sequence.layers_told = 0

    def _start_beside(self, reader: Sequence, sibling: Sequence) -> None:
        """One more answer to the prompt that `reader` has read."""
        sibling.started, sibling.computed, sibling.arrival = True, reader.prompt_length, reader.arrival
        with self._changed:
            if reader in self._scheduler:  # else its request is over
                self._scheduler.add(sibling)
        if not reader.prefill_only:
            self._reservations.fork(reader.handle, reader.prompt_length, sibling.answer)

    def _deliver(self, sequence: Sequence, sampled: Sampled) -> None:
        """Append a new token, and end the answer where it ends."""
        self._count(Counter.OUTPUT_TOKENS, 1)
        sequence.token_ids.append(sampled.token_id)
        try:
            sequence.chooser.accept(sampled.token_id)
            token = sequence.text.push(sampled.token_id, sampled.logprob)
        except Exception as error:  # a tokenizer that can't read its own ids
            self._fail(sequence, error)
            return
        if token.finish is not None or sequence.prefill_only:
            self._end(sequence)
        self._tell(sequence, lambda sink: sink.token(token))

    # -- when something fails ------------------------------------------------------------------------

    def _recover(self, chunks: list[Chunk], error: Exception) -> None:
        """A step failed: compute each of its requests alone, so that only the guilty one fails."""
        log.warning("engine step failed", requests=len(chunks), error=repr(error))
        if isinstance(error, torch.AcceleratorError):  # a device that faulted stays unusable in this process
            raise error
        survivors = 0
        for chunk in chunks:
            try:
                if len(chunks) == 1:
                    raise error
                outcome = self._steps.run([chunk], self._layer_teller([chunk]))
            except Exception as own:
                self._fail(chunk.sequence, own)
                survivors += isinstance(own, TandemError) and own.code in CLIENT_ERRORS  # the engine is well
            else:
                survivors += 1
                self._record([chunk], outcome)
        self._failed_steps = 0 if survivors else self._failed_steps + 1
        if self._failed_steps >= _HOPELESS_STEPS:
            raise error

    def _die(self, error: Exception) -> None:
        reason = f"the engine can't compute any more: {error!r}"
        log.error("engine loop ended", reason=reason, exc_info=error)
        with self._changed:
            self._failure = reason
        self._fail_all(TandemError(ErrorCode.ENGINE_FAILED, reason))

    def _fail(self, sequence: Sequence, error: Exception) -> None:
        """End the request of `sequence`, with all of its answers."""
        if not self._is_here(sequence):
            return
        self._drop(sequence.handle)
        self._reservations.withdraw(sequence.handle)
        if not isinstance(error, TandemError):
            error = TandemError(ErrorCode.ENGINE_FAILED, f"the engine could not compute this request: {error!r}")
        self._tell(sequence, lambda sink: sink.failed(error))

    def _fail_all(self, error: TandemError) -> None:
        with self._changed:
            left = {s.handle: s for s in (*self._scheduler.running, *self._scheduler.waiting)}
            for handle in left:
                self._drop(handle)
        for sequence in left.values():
            self._tell(sequence, lambda sink: sink.failed(error))

    # -- small pieces ----------------------------------------------------------------------------

    def _on(self, handle: KVHandle) -> list[Sequence]:
        return [s for s in (*self._scheduler.running, *self._scheduler.waiting) if s.handle == handle]

    def _is_here(self, sequence: Sequence) -> bool:
        with self._changed:
            return sequence in self._scheduler

    def _end(self, sequence: Sequence) -> None:
        with self._changed:
            self._scheduler.remove(sequence)

    def _drop(self, handle: KVHandle) -> None:
        with self._changed:
            for sequence in self._on(handle):
                self._scheduler.remove(sequence)

    def _count(self, counter: Counter, amount: int) -> None:
        with self._changed:
            self._measured.count(counter, amount)

    def _tell_progress(self, sequence: Sequence, progress: Progress) -> None:
        self._tell(sequence, lambda sink: sink.progress(progress))

    def _tell(self, sequence: Sequence, call: Callable[[Sink], None]) -> None:
        """Call the sink. One that raises (its event loop is gone) ends its own request only."""
        try:
            call(sequence.sink)
        except Exception:
            log.exception("a request's sink failed; the request is dropped")
            self._drop(sequence.handle)
