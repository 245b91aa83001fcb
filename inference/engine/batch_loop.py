"""The engine's thread: plan a step, run it, tell the sinks, again."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import structlog
import torch

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.timings import Counter, Latency, Window
from inference.engine.interface import KVHandle, Progress, Sink
from inference.engine.kv_cache import KVCache
from inference.engine.model_runner import ModelRunner, Piece
from inference.engine.reservations import Reservations
from inference.engine.sampler import sample
from inference.engine.scheduler import Chunk, Scheduler
from inference.engine.sequence import Sequence

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
        self._runner = runner
        self._cache = cache
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

    def submit(self, sequence: Sequence) -> None:
        """Queue `sequence`.

        Raises:
            TandemError(ENGINE_FAILED): the loop has ended.
            ValueError: a request is running on its handle.
        """
        with self._changed:
            if self._failure or self._stopping:
                raise TandemError(ErrorCode.ENGINE_FAILED, self._failure or "the engine was stopped")
            if self._on(sequence.handle):
                raise ValueError(f"a request is running on KV handle {sequence.handle.handle_id}")
            self._scheduler.add(sequence)
            self._changed.notify()

    def abort(self, handle: KVHandle) -> None:
        """Forget the request on `handle`. Its sink hears nothing any more, once a call under way has returned."""
        with self._changed:
            for sequence in self._on(handle):
                self._scheduler.remove(sequence)

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
                while chunks := self._next_chunks():
                    self._step(chunks)
            except Exception as error:
                self._die(error)

    def _next_chunks(self) -> list[Chunk]:
        """Wait for work; empty when the loop is to end."""
        with self._changed:
            while not self._stopping and not self._failure:
                self._turned = time.monotonic()
                if chunks := self._scheduler.plan():
                    return chunks
                self._changed.wait(_IDLE_S)
            return []

    def _step(self, chunks: list[Chunk]) -> None:
        began = time.monotonic()
        for chunk in chunks:
            self._announce_start(chunk.sequence)
        try:
            sampled = self._compute(chunks)
            self._failed_steps = 0
        except Exception as error:
            self._recover(chunks, error)
            return
        with self._changed:
            self._measured.observe(Latency.STEP, time.monotonic() - began)
        for chunk in chunks:
            self._deliver(chunk, sampled.get(chunk.sequence))

    def _compute(self, chunks: list[Chunk]) -> dict[Sequence, int]:
        """Run the model over `chunks`; the new token of each sequence that gets one."""
        with ExitStack() as pins:
            pieces: list[Piece] = []
            sampling: list[Sequence] = []
            for chunk in chunks:
                sequence = chunk.sequence
                try:
                    slot_map = pins.enter_context(self._reservations.pin(sequence.handle))
                except ValueError:
                    self._remove(sequence)  # its handle was released since the step was planned
                    continue
                pieces.append(Piece(slot_map, sequence.token_ids[chunk.start : chunk.end], chunk.start, chunk.samples))
                if chunk.samples:
                    sampling.append(sequence)
            if not pieces:
                return {}
            logits = self._runner.run(self._cache, pieces)
        if not sampling:
            return {}
        tokens = sample(logits, [(s.sampling, len(s.token_ids) - s.prompt_length) for s in sampling])
        return dict(zip(sampling, tokens, strict=True))

    def _deliver(self, chunk: Chunk, token_id: int | None) -> None:
        """Move the sequence on, and tell its sink."""
        sequence = chunk.sequence
        if not self._is_running(sequence):
            return
        was_reading, sequence.computed = sequence.reading, chunk.end
        with self._changed:
            self._measured.count(Counter.PROMPT_TOKENS, chunk.end - chunk.start if was_reading else 0)
            self._measured.count(Counter.OUTPUT_TOKENS, 0 if token_id is None else 1)
        if was_reading and sequence.report_progress:
            progress = Progress(start=chunk.start, end=chunk.end, done=not sequence.reading)
            self._tell(sequence, lambda sink: sink.progress(progress))
        if token_id is not None:
            self._deliver_token(sequence, token_id)

    def _deliver_token(self, sequence: Sequence, token_id: int) -> None:
        sequence.token_ids.append(token_id)
        try:
            token = sequence.text.push(token_id)
        except Exception as error:  # a tokenizer that can't read its own ids
            self._fail(sequence, error)
            return
        if token.finish is not None or sequence.prefill_only:
            self._remove(sequence)
        self._tell(sequence, lambda sink: sink.token(token))

    def _announce_start(self, sequence: Sequence) -> None:
        if not sequence.started:
            sequence.started = True
            self._tell(sequence, lambda sink: sink.started())

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
                sampled = self._compute([chunk])
            except Exception as own:
                self._fail(chunk.sequence, own)
            else:
                survivors += 1
                self._deliver(chunk, sampled.get(chunk.sequence))
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
        if not self._is_running(sequence):
            return
        self._remove(sequence)
        if not isinstance(error, TandemError):
            error = TandemError(ErrorCode.ENGINE_FAILED, f"the engine could not compute this request: {error!r}")
        self._tell(sequence, lambda sink: sink.failed(error))

    def _fail_all(self, error: TandemError) -> None:
        with self._changed:
            left = [*self._scheduler.running, *self._scheduler.waiting]
            for sequence in left:
                self._scheduler.remove(sequence)
        for sequence in left:
            self._tell(sequence, lambda sink: sink.failed(error))

    # -- small pieces ----------------------------------------------------------------------------

    def _on(self, handle: KVHandle) -> list[Sequence]:
        return [s for s in (*self._scheduler.running, *self._scheduler.waiting) if s.handle == handle]

    def _is_running(self, sequence: Sequence) -> bool:
        with self._changed:
            return sequence in self._scheduler.running

    def _remove(self, sequence: Sequence) -> None:
        with self._changed:
            self._scheduler.remove(sequence)

    def _tell(self, sequence: Sequence, call: Callable[[Sink], None]) -> None:
        """Call the sink. One that raises (its event loop is gone) ends its own request only."""
        try:
            call(sequence.sink)
        except Exception:
            log.exception("a request's sink failed; the request is dropped")
            self._remove(sequence)
