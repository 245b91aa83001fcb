"""What a worker has because of its role: tickets and answers, prefills and their sender, the KV receiver, the labels of
its metrics. A change of role makes all of it anew, so that nothing of the old role can be met in the new one."""

from __future__ import annotations

import time

import msgspec

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import WorkerLoad
from inference.contracts.specs import EngineSettings, WorkerSpec
from inference.contracts.states import Role
from inference.contracts.worker import PairReport, PreflightOrder
from inference.process.tls import NodeTls
from inference.transfer.base import TransferCounters, TransferSettings
from inference.transfer.receiver import KVReceiver
from inference.transfer.sender import KVSender
from inference.transfer.tickets import TicketState, TicketTable
from inference.worker.answer import AnswerService
from inference.worker.blocks import BlockQueue
from inference.worker.embeddings import EmbeddingService
from inference.worker.metrics import WorkerMetrics
from inference.worker.prefill import PrefillService
from inference.worker.state import WorkerState
from inference.worker.windows import WindowRecorder

#: Of KV blocks, a preflight may hold so much for the moment that it takes.
_PREFLIGHT_BYTES = 256 * 1024 * 1024


class Duties:
    """One role's worth of a worker; used on one event loop. spec: with that role, which `state` may not have yet."""

    def __init__(
        self, spec: WorkerSpec, state: WorkerState, recorder: WindowRecorder, secret: str, tls: NodeTls | None
    ) -> None:
        self._state = state
        engine, limits = state.engine, state.limits
        self._counters = TransferCounters()
        self._bytes_told = 0
        self._blocks = BlockQueue(engine.reserve)
        self.tickets = TicketTable(
            reserve=engine.reserve,
            release=engine.release,
            lease_s=limits.lease_s,
            limit=spec.settings.max_running if limits.max_tickets is None else limits.max_tickets,
            clock=time.monotonic,
            on_expired=lambda: self._counters.fail("receiver", ErrorCode.TICKET_EXPIRED),
        )
        self.answers = AnswerService(state, self.tickets, recorder, self.load)
        travel = limits.handoff or _as_set(spec.settings)
        self._sender = KVSender(
            secret=secret,
            engine=engine,
            counters=self._counters,
            limits=limits.transfer,
            settings=travel,
            tls=tls.client if tls is not None else None,
        )
        self.prefills = PrefillService(
            state, self._blocks, recorder, self._counters, self._sender, self.load, by_layer=travel.by_layer
        )
        self.embeddings = EmbeddingService(state)
        self.metrics = WorkerMetrics(spec, recorder, self._counters, self.load_if_ready)
        self._receiver: KVReceiver | None = None
        if spec.role is Role.DECODE:
            self._receiver = KVReceiver(
                secret=secret,
                engine=engine,
                tickets=self.tickets,
                counters=self._counters,
                limits=limits.transfer,
                tls=tls.server if tls is not None else None,
            )

    async def listen(self, host: str) -> int | None:
        """Bind the KV receiver, of a role that takes hand-offs; its port."""
        return await self._receiver.listen(host) if self._receiver is not None else None

    async def preflight(self, order: PreflightOrder) -> PairReport:
        """Try a hand-off.

        Raises:
            TandemError: NOT_READY while the model loads, or of a worker of a role that sends none.
        """
        if self._state.spec.role is not Role.PREFILL:
            raise TandemError(ErrorCode.NOT_READY, f"a {self._state.spec.role} worker hands nothing over")
        self._state.check_open()
        return await self._sender.preflight(order.target, min(max(0, order.size_bytes), _PREFLIGHT_BYTES))

    def load(self) -> WorkerLoad:
        """The engine's load, with what waits before it and travels beside it."""
        load = self._state.engine.load()
        return msgspec.structs.replace(
            load,
            running=load.running + self.embeddings.live,
            waiting=load.waiting + self._blocks.waiting,
            waiting_tokens=load.waiting_tokens + self._blocks.waiting_tokens,
            tickets=len(self.tickets),
            handoffs=self.prefills.live + self.tickets.count(TicketState.FILLING),
            kv_bytes_received=self._counters.bytes_received,
            kv_bytes_sent=self._counters.bytes_sent,
            kv_block_tokens=self._state.engine.info.block_size,
        )

    def load_if_ready(self) -> WorkerLoad | None:
        return self.load() if self._state.ready else None

    def bytes_moved(self) -> int:
        """KV bytes that came or went since the last call."""
        moved = self._counters.bytes_sent + self._counters.bytes_received - self._bytes_told
        self._bytes_told += moved
        return moved

    def abort(self, error: TandemError) -> None:
        """Fail the answers that run, so that their callers know."""
        self.tickets.abort_all(error)

    async def close(self) -> None:
        """End all connections, which aborts open hand-offs."""
        if self._receiver is not None:
            await self._receiver.close()
        await self._sender.close()


def _as_set(settings: EngineSettings) -> TransferSettings:
    return TransferSettings(
        transports=settings.kv_transports,
        streams=settings.kv_streams,
        wire_dtype=settings.kv_wire_dtype,
        by_layer=settings.kv_by_layer,
    )
