"""One worker: its engine, what its role gives it to do, its telemetry, and their common life."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import ParamSpec

import structlog

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address, WorkerLoad
from inference.contracts.specs import WorkerSpec
from inference.contracts.states import Role
from inference.contracts.timings import Counter, Window
from inference.contracts.worker import RoleOrder, WorkerStatus
from inference.engine.interface import Engine
from inference.process.tasks import end, keep_running
from inference.process.tls import NodeTls
from inference.worker.duties import Duties
from inference.worker.limits import WorkerLimits
from inference.worker.role_switch import check_switch, switched
from inference.worker.state import WorkerState
from inference.worker.tokens import TokenService
from inference.worker.windows import WindowRecorder

P = ParamSpec("P")

log = structlog.get_logger()


class Worker:
    """What the HTTP surface calls. `listen`, then `load`, then serve, then `stop`; on one event loop."""

    def __init__(
        self, spec: WorkerSpec, engine: Engine, secret: str, limits: WorkerLimits, tls: NodeTls | None = None
    ) -> None:
        self._secret = secret
        self._tls = tls
        self._engine = engine
        self._timers: list[asyncio.Task[None]] = []
        self._switch: asyncio.Task[None] | None = None
        self._host = self._advertised = ""
        self.state = WorkerState(spec, engine, limits)
        self.recorder = WindowRecorder(spec, drain=self._drain, load=self.load_now, window_s=limits.window_s)
        self.tokens = TokenService(self.state)
        self.duties = self._duties_of(spec)

    def _duties_of(self, spec: WorkerSpec) -> Duties:
        return Duties(spec, self.state, self.recorder, self._secret, self._tls)

    async def listen(self, host: str, advertised: str) -> None:
        """Bind what the role listens on; peers are told `advertised`."""
        self._host, self._advertised = host, advertised
        self.state.transfer = self._address(await self.duties.listen(host))

    def _address(self, port: int | None) -> Address | None:
        return None if port is None else Address(host=self._advertised, port=port)

    async def load(self) -> bool:
        """Start the engine without holding up the event loop; False when it failed, with the reason in the state."""
        try:
            await _in_thread(self._engine.start)
        except Exception as error:
            self.state.broken = describe(error)
            self.state.fatal = isinstance(error, TandemError) and error.code is ErrorCode.INVALID_REQUEST
            log.error(
                "engine did not start",
                fatal=self.state.fatal,
                reason=self.state.broken,
                exc_info=not self.state.fatal,
            )
            return False
        self._timers = [asyncio.create_task(keep_running(job)) for job in (self._expire_tickets, self.recorder.run)]
        self.state.ready = True
        log.info("worker ready", worker=self.state.spec.worker_id, fingerprint=self._engine.info.fingerprint)
        return True

    def load_now(self) -> WorkerLoad:
        return self.duties.load()

    def _drain(self, window: Window) -> None:
        """What the engine measured, and the KV bytes that came or went, since the last window."""
        self._engine.drain_window(window)
        moved = self.duties.bytes_moved()
        if moved:
            window.count(Counter.TRANSFER_BYTES, moved)

    async def switch(self, order: RoleOrder) -> WorkerStatus:
        """Change the role with the weights loaded; what the worker is then. A caller that leaves does not stop it, and
        one that repeats the order waits for the same change.

        Raises:
            TandemError: NOT_IDLE or NOT_READY when it can't be begun now; SWITCH_REFUSED when the worker stays what it
                was, with the cause.
        """
        if self._switch is None and order.role is not self.state.spec.role:
            check_switch(self.state, self.load_now)
            self.state.switching_to = order.role
            self._switch = asyncio.create_task(self._switch_to(order))
            self._switch.add_done_callback(self._switch_ended)
        if self._switch is not None:
            if self.state.switching_to is not order.role:
                raise TandemError(ErrorCode.NOT_IDLE, f"the worker is changing its role to {self.state.switching_to}")
            await asyncio.shield(self._switch)
        return self.status()

    async def _switch_to(self, order: RoleOrder) -> None:
        spec = switched(self.state.spec, order)
        duties = self._duties_of(spec)
        try:
            port = await duties.listen(self._host)
            self.recorder.close_window()  # what the old role did is told as the old role's
            await self._engine_becomes(order.role)
        except BaseException as error:
            await duties.close()
            if not isinstance(error, Exception):
                raise
            log.warning("role is not changed", role=self.state.spec.role, wanted=order.role, reason=describe(error))
            raise TandemError(ErrorCode.SWITCH_REFUSED, describe(error)) from error
        left, self.duties = self.duties, duties
        self.recorder.relabel(spec)
        self.state.spec, self.state.transfer = spec, self._address(port)
        await left.close()
        log.info("role is changed", role=order.role, transfer=self.state.transfer)

    async def _engine_becomes(self, role: Role) -> None:
        limit_s = self.state.limits.switch_s
        try:
            async with asyncio.timeout(limit_s) as limit:
                await _in_thread(self._engine.switch_role, role)
        except TimeoutError as error:
            if not limit.expired():
                raise  # the engine's own
            self.state.broken = f"the engine did not become {role} within {limit_s:g} s"
            raise TandemError(ErrorCode.ENGINE_FAILED, self.state.broken) from error

    def _switch_ended(self, task: asyncio.Task[None]) -> None:
        self._switch, self.state.switching_to = None, None
        if not task.cancelled():
            task.exception()  # whoever asked may be gone

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
            load=self.duties.load_if_ready(),
            abilities=info.abilities if info else None,
        )

    async def stop(self) -> None:
        """Fail what runs, so that its callers know, and end the engine within `stop_s`."""
        self.state.draining = True
        self.duties.abort(TandemError(ErrorCode.ENGINE_FAILED, "the worker is stopping"))
        try:
            async with asyncio.timeout(self.state.limits.stop_s):
                await _in_thread(self._engine.stop)
        except TimeoutError:
            log.warning("the engine did not stop in time")

    async def close(self) -> None:
        """After `stop` and once no call is open any more: end connections and timers."""
        await end(self._timers if self._switch is None else [*self._timers, self._switch])
        await self.duties.close()

    async def _expire_tickets(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self.state.limits.lease_s / 4))
            self.duties.tickets.expire_due()


def describe(error: Exception) -> str:
    """One line that tells a person why a worker failed."""
    return error.message if isinstance(error, TandemError) else f"{type(error).__name__}: {error}"


async def _in_thread(call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
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
            call(*args, **kwargs)
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name=f"worker-{call.__name__}", daemon=True).start()
    await done
