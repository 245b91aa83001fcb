"""Serves prefill: reads a prompt, streams its first token, and pushes the KV to the worker that writes the answer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import structlog

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import (
    Finished,
    HandoffDone,
    PrefillRequest,
    StreamEvent,
    StreamFailed,
    WorkerTimings,
)
from inference.contracts.reports import WorkerLoad
from inference.contracts.states import FinishReason, Role
from inference.contracts.timings import Counter, Latency
from inference.engine.interface import KVHandle, Token
from inference.transfer.base import FirstTokens, Pushed, PushOrder, TransferCounters
from inference.transfer.sender import KVSender
from inference.worker.blocks import BlockQueue
from inference.worker.requests import check_answered, check_sampling
from inference.worker.sink import RequestSink, between, delta, typed
from inference.worker.state import WorkerState
from inference.worker.windows import WindowRecorder

log = structlog.get_logger()


class PrefillService:
    """All prefills of one worker. live: how many are under way, each until its hand-off is decided. load: what the
    worker has to do now. by_layer: KV leaves layer by layer, not chunk by chunk."""

    def __init__(
        self,
        state: WorkerState,
        blocks: BlockQueue,
        recorder: WindowRecorder,
        counters: TransferCounters,
        sender: KVSender,
        load: Callable[[], WorkerLoad],
        *,
        by_layer: bool,
    ) -> None:
        self._state = state
        self._blocks = blocks
        self._recorder = recorder
        self._counters = counters
        self._sender = sender
        self._load = load
        self._by_layer = by_layer
        self.live = 0

    @contextlib.asynccontextmanager
    async def admitted(self, order: PrefillRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """The stream of an accepted request; its blocks are free again when the block is left.

        Raises:
            TandemError: refused before anything was computed. The ticket is untouched and may be tried elsewhere.
        """
        asked_at = time.monotonic()
        self._check(order)
        self.live += 1
        try:
            await check_sampling(order.sampling, self._state.engine)
            check_answered(order.sampling, len(order.token_ids))
            handle = await self._blocks.reserve(order.token_ids, order.cache_salt, self._state.limits.kv_wait_s)
            try:
                async with contextlib.aclosing(self._events(order, handle, asked_at)) as events:
                    yield events
            finally:
                self._state.engine.release(handle)
        finally:
            self.live -= 1

    def _check(self, order: PrefillRequest) -> None:
        state = self._state
        if state.spec.role is not Role.PREFILL:
            # Only a router with an old table asks the wrong role: no client's fault, and another worker can serve.
            raise TandemError(ErrorCode.NOT_READY, f"a {state.spec.role} worker takes no prefill hand-offs")
        state.check_open()
        info = state.engine.info
        if order.fingerprint != info.fingerprint:
            raise TandemError(
                ErrorCode.FINGERPRINT_MISMATCH,
                f"decode runs {order.fingerprint!r}, this prefill worker {info.fingerprint!r}: their KV differs",
            )
        if not 1 <= len(order.token_ids) < info.context_length:
            raise TandemError(
                ErrorCode.CONTEXT_LENGTH_EXCEEDED,
                f"{len(order.token_ids)} prompt tokens; this model reads 1 to {info.context_length - 1}",
            )
        if self.live >= state.limits.max_prefills:
            raise TandemError(ErrorCode.QUEUE_FULL, f"{self.live} prefills are under way, which is the limit")

    async def _events(self, order: PrefillRequest, handle: KVHandle, asked_at: float) -> AsyncGenerator[StreamEvent]:
        sink = RequestSink()
        push = self._start_push(order, handle, sink)
        failed = False
        try:
            self._state.engine.prefill(
                handle,
                list(order.token_ids),
                order.sampling,
                sink,
                report_progress=order.sampling.max_tokens > 1,  # else the first token ends the answer
                by_layer=self._by_layer,
                priority=order.priority,
            )
            tokens = await self._first_tokens(sink, push, order.sampling.n)
            queue_s = between(asked_at, sink.started_at)
            prefill_s = between(sink.started_at, sink.first_token_at)
            self._recorder.observe(Latency.QUEUE, queue_s)
            self._recorder.observe(Latency.PREFILL, prefill_s)
            for token in tokens:
                yield delta(token)
            if all(token.finish is not None for token in tokens):
                yield Finished(
                    reason=tokens[-1].finish or FinishReason.STOP,
                    text="",
                    prompt_tokens=len(order.token_ids),
                    cached_tokens=handle.cached_tokens,
                    completion_tokens=len(tokens),
                    timings=WorkerTimings(queue_s=queue_s, prefill_s=prefill_s),
                    load=self._load(),
                )
                return
            sink.computed.put_nowait(FirstTokens(tuple(token.token_id for token in tokens)))
            pushed = await self._verdict(push)
            handoff_s = between(sink.first_token_at, time.monotonic())
            self._note_handoff(pushed, handoff_s)
            yield HandoffDone(
                tokens=pushed.tokens,
                bytes=pushed.bytes,
                transfer_s=pushed.busy_s,
                transport=pushed.transport,
                timings=WorkerTimings(queue_s=queue_s, prefill_s=prefill_s, handoff_s=handoff_s),
                cached_tokens=handle.cached_tokens,
                load=self._load(),
            )
        except Exception as raised:
            failed, error = True, typed(raised)
            if error.code is not ErrorCode.CANCELLED:  # a client that left is no failure
                self._recorder.count(Counter.HANDOFF_FAILURES)
            log.warning("prefill failed", ticket=order.ticket_id, code=error.code, reason=error.message)
            yield StreamFailed(code=error.code, message=error.message)
        finally:
            await self._end_push(push, failed)

    async def _end_push(self, push: asyncio.Task[Pushed], failed: bool) -> None:
        """No push outlives its request. After a failure it gets a moment to tell the receiver the cause."""
        try:
            if failed:
                await asyncio.wait({push}, timeout=self._state.limits.transfer.abort_s)
        finally:
            push.cancel()
            await asyncio.wait({push})

    def _start_push(self, order: PrefillRequest, handle: KVHandle, sink: RequestSink) -> asyncio.Task[Pushed]:
        push_order = PushOrder(
            request_id=order.request_id,
            ticket_id=order.ticket_id,
            target=order.target,
            token_ids=list(order.token_ids),
            handle=handle,
        )
        push = asyncio.create_task(self._sender.push(push_order, sink.computed))
        push.add_done_callback(lambda task: task.cancelled() or task.exception())
        return push

    async def _first_tokens(self, sink: RequestSink, push: asyncio.Task[Pushed], answers: int) -> list[Token]:
        """The first token of each answer, which the engine makes in one step, unless the hand-off fails before: then
        computing on would be in vain."""
        first = asyncio.create_task(sink.next_token())
        try:
            await asyncio.wait({first, push}, return_when=asyncio.FIRST_COMPLETED)
            if not first.done():
                push.result()
            tokens = [await first] + [await sink.next_token() for _ in range(answers - 1)]
            return sorted(tokens, key=lambda token: token.answer)
        finally:
            first.cancel()

    async def _verdict(self, push: asyncio.Task[Pushed]) -> Pushed:
        limit_s = self._state.limits.handoff_s
        try:
            async with asyncio.timeout(limit_s):
                return await push
        except TimeoutError:
            self._counters.fail("sender", ErrorCode.DEADLINE_EXCEEDED)
            raise TandemError(
                ErrorCode.DEADLINE_EXCEEDED, f"the decode worker did not accept the KV within {limit_s:g} s"
            ) from None

    def _note_handoff(self, pushed: Pushed, handoff_s: float | None) -> None:
        self._recorder.count(Counter.HANDOFFS)
        self._recorder.observe(Latency.TRANSFER, pushed.busy_s)
        if handoff_s is not None:
            self._recorder.handoff.add(handoff_s)
