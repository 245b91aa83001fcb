"""Serves answers: reserves blocks under tickets, and writes the answer of a ticket once its prompt is read."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import msgspec
import structlog

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import (
    Finished,
    GenerateRequest,
    ReserveRequest,
    StreamEvent,
    StreamFailed,
    Ticket,
    WorkerTimings,
)
from inference.contracts.prompts import Prompt, TextPrompt
from inference.contracts.reports import WorkerLoad
from inference.contracts.sampling import SAMPLING_VERSION
from inference.contracts.states import ANSWERING_ROLES, PrefillPath
from inference.contracts.timings import Counter, Latency
from inference.transfer.tickets import LEASED, HeldTicket, TicketState, TicketTable
from inference.worker.requests import answer_limit, check_answered, check_sampling
from inference.worker.sink import RequestSink, between, delta, typed
from inference.worker.state import WorkerState
from inference.worker.tokens import check_model, tokens_of
from inference.worker.windows import WindowRecorder

log = structlog.get_logger()


class AnswerService:
    """Tickets and answers of one decode or unified worker. load: what it has to do now."""

    def __init__(
        self, state: WorkerState, tickets: TicketTable, recorder: WindowRecorder, load: Callable[[], WorkerLoad]
    ) -> None:
        self._state = state
        self._tickets = tickets
        self._recorder = recorder
        self._load = load

    async def reserve(self, request: ReserveRequest) -> Ticket:
        """Check the request, tokenise it and set blocks aside for prompt and answer.

        Raises:
            TandemError: refused; nothing is held.
        """
        state = self._state
        self._check_role()
        state.check_open()
        check_model(request.model_name, state)
        await check_sampling(request.sampling, state.engine)
        token_ids = await tokens_of(request.prompt, state)
        check_answered(request.sampling, len(token_ids))
        state.check_open()  # tokenising a long prompt and compiling a grammar take a while
        info = state.engine.info
        max_tokens = answer_limit(request, len(token_ids), info)
        sampling = msgspec.structs.replace(
            request.sampling, max_tokens=max_tokens, min_tokens=min(request.sampling.min_tokens, max_tokens)
        )
        held = self._tickets.issue(
            request.request_id, token_ids, sampling, priority=request.priority, cache_salt=request.cache_salt
        )
        return Ticket(
            ticket_id=held.ticket_id,
            request_id=held.request_id,
            worker_id=state.spec.worker_id,
            fingerprint=info.fingerprint,
            token_ids=tuple(token_ids),
            cached_tokens=held.handle.cached_tokens,
            max_tokens=max_tokens,
            lease_s=self._tickets.lease_s,
            transfer=state.transfer,
            prompt_text=self._text(request.prompt, token_ids) if request.echo else None,
            sampling_version=SAMPLING_VERSION,
            tool_format=info.tool_format,
            load=self._load(),
        )

    def release(self, ticket_id: str) -> None:
        """Give a ticket's blocks back, whatever it is doing. A ticket that has ended is left as it is.

        Raises:
            TandemError: TICKET_UNKNOWN for an id that was never issued.
        """
        try:
            held = self._tickets.find(ticket_id)
        except TandemError:
            if not self._tickets.remembers(ticket_id):
                raise
            return
        self._tickets.abort(held, TandemError(ErrorCode.CANCELLED, "the ticket was released"))

    @contextlib.asynccontextmanager
    async def answering(self, order: GenerateRequest) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """The stream of a ticket's answer; the ticket is over when the block is left.

        Raises:
            TandemError: the ticket is unknown, over, or used by another call.
        """
        self._check_role()
        held = self._tickets.find(order.ticket_id)
        if held.callers or held.state not in LEASED:
            raise TandemError(ErrorCode.TICKET_UNKNOWN, f"ticket {order.ticket_id!r} is answered by another call")
        if order.path is PrefillPath.LOCAL:
            self._tickets.answer(held, after=TicketState.RESERVED)
        try:
            with self._tickets.held(held):
                async with contextlib.aclosing(self._events(held, order.path)) as events:
                    yield events
        finally:
            self._tickets.abort(held, TandemError(ErrorCode.CANCELLED, "the caller left before the answer was whole"))

    async def _events(self, held: HeldTicket, path: PrefillPath) -> AsyncGenerator[StreamEvent]:
        asked_at = time.monotonic()
        sink = RequestSink()
        held.on_end = sink.end
        given = held.sampling.n if path is PrefillPath.HANDOFF else 0
        try:
            unfinished = await self._begin(held, path, sink)
            token = await sink.next_token()
            timings = self._timings(held, path, sink, asked_at)
            while True:
                given += 1
                unfinished -= token.finish is not None
                if token.finish is not None and not unfinished:
                    break
                yield delta(token)
                token = await sink.next_token()
            self._tickets.close(held)
            yield delta(token)
            yield Finished(
                reason=token.finish,
                text="",
                prompt_tokens=len(held.token_ids),
                cached_tokens=held.handle.cached_tokens if path is PrefillPath.LOCAL else 0,
                completion_tokens=given,
                timings=timings,
                load=self._load(),
            )
        except Exception as raised:
            error = typed(raised)
            self._tickets.abort(held, error)
            log.warning("answer failed", ticket=held.ticket_id, code=error.code, reason=error.message)
            yield StreamFailed(code=error.code, message=error.message)

    async def _begin(self, held: HeldTicket, path: PrefillPath, sink: RequestSink) -> int:
        """Start the answers in the engine; for a hand-off, once its KV is here and verified. How many are to end."""
        engine = self._state.engine
        if path is PrefillPath.LOCAL:
            self._recorder.count(Counter.LOCAL_PREFILLS)
            engine.generate(held.handle, held.token_ids, held.sampling, sink, priority=held.priority)
            return held.sampling.n
        first_tokens = await self._committed(held)
        self._tickets.answer(held, after=TicketState.COMMITTED)
        return engine.resume(held.handle, held.token_ids, first_tokens, held.sampling, sink, priority=held.priority)

    async def _committed(self, held: HeldTicket) -> tuple[int, ...]:
        """Wait for verified KV; the first token of each answer, which the prefill worker has given already."""
        limit_s = self._state.limits.handoff_wait_s
        try:
            async with asyncio.timeout(limit_s):
                await held.settled.wait()
        except TimeoutError:
            raise TandemError(ErrorCode.DEADLINE_EXCEEDED, f"no KV was committed within {limit_s:g} s") from None
        if held.first_tokens is None or held.ended is not None:
            raise held.ended or TandemError(ErrorCode.CANCELLED, "the ticket ended before its KV came")
        return held.first_tokens

    def _timings(self, held: HeldTicket, path: PrefillPath, sink: RequestSink, asked_at: float) -> WorkerTimings:
        """How long it took until the first token that was made here."""
        if path is PrefillPath.HANDOFF:
            decode_wait_s = between(held.committed_at, sink.started_at)
            self._recorder.observe(Latency.QUEUE, decode_wait_s)
            return WorkerTimings(decode_wait_s=decode_wait_s)
        queue_s, prefill_s = between(asked_at, sink.started_at), between(sink.started_at, sink.first_token_at)
        self._recorder.observe(Latency.QUEUE, queue_s)
        self._recorder.observe(Latency.PREFILL, prefill_s)
        return WorkerTimings(queue_s=queue_s, prefill_s=prefill_s)

    def _text(self, prompt: Prompt, token_ids: list[int]) -> str:
        return prompt.text if isinstance(prompt, TextPrompt) else self._state.engine.detokenize(token_ids)

    def _check_role(self) -> None:
        """Only a router with an old table asks the wrong role: no client's fault, and another worker can serve."""
        role = self._state.spec.role
        if role not in ANSWERING_ROLES:
            raise TandemError(ErrorCode.NOT_READY, f"a {role} worker writes no answers")
