"""One worker: its engine, tickets, transfer ends and telemetry, and their common life."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

import msgspec
import structlog

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address, WorkerLoad
from inference.contracts.specs import WorkerSpec
from inference.contracts.states import Role
from inference.contracts.timings import Counter, Window
from inference.contracts.worker import WorkerStatus
from inference.engine.interface import Engine
from inference.process.tasks import end, keep_running
from inference.transfer.base import KVReceiver, TransferCounters
from inference.transfer.receiver import TcpReceiver
from inference.transfer.sender import TcpSender
from inference.transfer.tickets import TicketState, TicketTable
from inference.worker.answer import AnswerService
from inference.worker.blocks import BlockQueue
from inference.worker.limits import WorkerLimits
from inference.worker.metrics import WorkerMetrics
from inference.worker.prefill import PrefillService
from inference.worker.state import WorkerState
from inference.worker.windows import WindowRecorder

log = structlog.get_logger()


class Worker:
    """What the HTTP surface calls. `listen`, then `load`, then serve, then `stop`; on one event loop."""

    def __init__(self, spec: WorkerSpec, engine: Engine, secret: str, limits: WorkerLimits) -> None:
        self._secret = secret
        self._engine = engine
        self._timers: list[asyncio.Task[None]] = []
        self._receiver: KVReceiver | None = None
        self._blocks = BlockQueue(engine.reserve)
        self._counters = TransferCounters()
        self._bytes_told = 0
        self.tickets = TicketTable(
            reserve=engine.reserve,
            release=engine.release,
            lease_s=limits.lease_s,
            limit=spec.settings.max_running if limits.max_tickets is None else limits.max_tickets,
            clock=time.monotonic,
            on_expired=lambda: self._counters.fail("receiver", ErrorCode.TICKET_EXPIRED),
        )
        self.state = WorkerState(spec, engine, limits)
        self.recorder = WindowRecorder(spec, drain=self._drain, load=self.load_now, window_s=limits.window_s)
        self.answers = AnswerService(self.state, self.tickets, self.recorder)
        self._sender = TcpSender(secret=secret, engine=engine, counters=self._counters, limits=limits.transfer)
        self.prefills = PrefillService(self.state, self._blocks, self.recorder, self._counters, self._sender)
        self.metrics = WorkerMetrics(spec, self.recorder, self._counters, self._load_if_ready)

    async def listen(self, host: str, advertised: str) -> None:
        """Bind the KV receiver on workers that take hand-offs."""
        if self.state.spec.role is not Role.DECODE:
            return
        limits = self.state.limits.transfer
        self._receiver = TcpReceiver(
            secret=self._secret,
            engine=self._engine,
            tickets=self.tickets,
            counters=self._counters,
            limits=limits,
        )
        self.state.transfer = Address(host=advertised, port=await self._receiver.listen(host))

    async def load(self) -> bool:
        """Start the engine without holding up the event loop; False when it failed, with the reason in the state."""
        try:
            await _in_thread(self._engine.start)
        except Exception as error:
            self.state.start_failure = describe(error)
            self.state.fatal = isinstance(error, TandemError) and error.code is ErrorCode.INVALID_REQUEST
            log.error(
                "engine did not start",
                fatal=self.state.fatal,
                reason=self.state.start_failure,
                exc_info=not self.state.fatal,
            )
            return False
        self._timers = [asyncio.create_task(keep_running(job)) for job in (self._expire_tickets, self.recorder.run)]
        self.state.ready = True
        log.info("worker ready", worker=self.state.spec.worker_id, fingerprint=self._engine.info.fingerprint)
        return True

    def load_now(self) -> WorkerLoad:
        """The engine's load, with what waits before it and travels beside it."""
        load = self._engine.load()
        return msgspec.structs.replace(
            load,
            waiting=load.waiting + self._blocks.waiting,
            waiting_tokens=load.waiting_tokens + self._blocks.waiting_tokens,
            tickets=len(self.tickets),
            handoffs=self.prefills.live + self.tickets.count(TicketState.FILLING),
            kv_bytes_received=self._counters.bytes_received,
            kv_bytes_sent=self._counters.bytes_sent,
        )

    def _drain(self, window: Window) -> None:
        """What the engine measured, and the KV bytes that came or went, since the last window."""
        self._engine.drain_window(window)
        moved = self._counters.bytes_sent + self._counters.bytes_received
        if moved > self._bytes_told:
            window.count(Counter.TRANSFER_BYTES, moved - self._bytes_told)
            self._bytes_told = moved

    def _load_if_ready(self) -> WorkerLoad | None:
        return self.load_now() if self.state.ready else None

    def status(self) -> WorkerStatus:
        state = self.state
        info = self._engine.info if state.ready else None
        return WorkerStatus(
            worker_id=state.spec.worker_id,
            incarnation=state.spec.incarnation,
            role=state.spec.role,
            ready=state.ready,
            draining=state.draining,
            healthy=state.healthy,
            failure=state.failure,
            fatal=state.fatal,
            transfer=state.transfer,
            fingerprint=info.fingerprint if info else None,
            context_length=info.context_length if info else None,
            kv_bytes_per_token=info.kv_bytes_per_token if info else None,
            load=self._load_if_ready(),
        )

    async def stop(self) -> None:
        """Fail what runs, so that its callers know, and end the engine within `stop_s`."""
        self.state.draining = True
        self.tickets.abort_all(TandemError(ErrorCode.ENGINE_FAILED, "the worker is stopping"))
        try:
            async with asyncio.timeout(self.state.limits.stop_s):
                await _in_thread(self._engine.stop)
        except TimeoutError:
            log.warning("the engine did not stop in time")

    async def close(self) -> None:
        """After `stop` and once no call is open any more: end connections and timers."""
        await end(self._timers)
        if self._receiver is not None:
            await self._receiver.close()
        await self._sender.close()

    async def _expire_tickets(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self.tickets.lease_s / 4))
            self.tickets.expire_due()


def describe(error: Exception) -> str:
    """One line that tells a person why a worker failed."""
    return error.message if isinstance(error, TandemError) else f"{type(error).__name__}: {error}"


async def _in_thread(call: Callable[[], None]) -> None:
    """Run a long blocking call in a daemon thread: unlike an executor's, it can't hold up the end of the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: Exception | None = None
        try:
            call()
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name=f"worker-{call.__name__}", daemon=True).start()
    await done
