"""Keeps the processes of one node as its newest spec wants them.

Level-triggered: every tick looks at all processes, asks `diff` what has to happen, and does it; a lost message, a
crash or a restart of the agent only makes the next tick do more. Ticks never wait: probes, drain orders and the end of
processes are started in one tick and found done in a later one.

What happens to workers when the agent ends:

    SIGTERM, SIGINT   they are stopped cleanly (SIGTERM, then SIGKILL at the deadline), and reported as stopped;
                      with TANDEM_AGENT_ON_STOP=leave they go on serving
    SIGKILL, crash    they go on serving

Workers left serving are found by the next agent on the same folder: adopted when the last known spec still wants that
incarnation, stopped otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import msgspec
import structlog

from inference.agent.config import OnStop, Settings
from inference.agent.control.acceptance import SpecRefused, accepts
from inference.agent.hosts import Hosts
from inference.agent.state_dir import StateDir
from inference.agent.workers import logs
from inference.agent.workers.acts import WorkerActs
from inference.agent.workers.client import WorkerClient
from inference.agent.workers.diff import Action, ActionKind, ProcessState, ProcessView, diff
from inference.agent.workers.launcher import Launcher
from inference.agent.workers.probes import Prober
from inference.agent.workers.room import Room
from inference.agent.workers.track import Track
from inference.contracts.reports import Address, DeviceReport, WorkerReport
from inference.contracts.specs import NodeSpec, WorkerSpec
from inference.contracts.states import WorkerDesired
from inference.contracts.worker import ProcessAnnouncement

log = structlog.get_logger()


class Supervisor:
    """One node's processes. `run` is a coroutine for one event loop; the other methods may be called from any thread.

    on_change: called (on the loop's thread, must not block) whenever a report would say something new about a phase.
    devices: this node's devices as they are now.
    """

    def __init__(
        self,
        *,
        node_id: str,
        cluster_secret: str,
        hosts: Hosts,
        state: StateDir,
        launcher: Launcher,
        settings: Settings,
        on_change: Callable[[], None] = lambda: None,
        devices: Callable[[], Sequence[DeviceReport]] = tuple,
        worker_tls: ssl.SSLContext | None = None,
    ) -> None:
        self._worker_tls = worker_tls
        self._node_id = node_id
        self._secret = cluster_secret
        self._hosts = hosts
        self._state = state
        self._launcher = launcher
        self._settings = settings
        self._on_change = on_change
        room = Room(state.root, disk_floor=settings.disk_floor_bytes, devices=devices)
        self._acts = WorkerActs(state=state, launcher=launcher, room=room, settings=settings)
        self._lock = threading.Lock()
        known = state.spec
        self._spec = known if known is not None and known.node_id == node_id else None
        self._applied_generation = 0
        self._refused_spec = ""
        self._tracks: dict[str, Track] = {}
        self._closing = False
        self._last_phases: object = None
        self._next_probe = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()

    @property
    def observed_generation(self) -> int:
        """The newest spec that a whole tick has worked on; 0 for none."""
        return self._applied_generation

    @property
    def refused_spec(self) -> str:
        """Why the last spec was refused; empty once one was accepted."""
        return self._refused_spec

    def submit(self, spec: NodeSpec) -> bool:
        """Take a spec as what is wanted from now on, surviving restarts. Returns whether it was new.

        Raises:
            SpecRefused: see `acceptance.accepts`; what was wanted before stays wanted.
        """
        with self._lock:
            try:
                if not accepts(spec, self._node_id, self._spec.generation if self._spec else 0, self._launcher.engines):
                    return False
            except SpecRefused as error:
                self._refused_spec = f"generation {spec.generation} is refused: {error}"
                self._on_change()
                raise
            self._refused_spec = ""
            self._state.save_spec(spec)
            self._spec = spec
        self._wake_up()
        return True

    def close(self) -> None:
        """Ask `run` to end by the policy of the settings."""
        self._closing = True
        self._wake_up()

    def reports(self) -> tuple[WorkerReport, ...]:
        """All workers as they are now, in order of their ids."""
        with self._lock:
            now = time.monotonic()
            return tuple(
                track.report(now, self._hosts.advertised, logs.tail(self._state.log_file(worker_id)))
                for worker_id, track in sorted(self._tracks.items())
            )

    def holders(self) -> dict[str, int]:
        """The process that holds each device in use, by device id."""
        with self._lock:
            return {
                device.device_id: track.process.pid
                for track in self._tracks.values()
                if track.process is not None
                for device in track.spec.devices
            }

    def ready(self) -> dict[str, Address]:
        """Workers that were ready by their last answer, and where this agent reaches them."""
        with self._lock:
            return {
                worker_id: self._dialled(track.announcement)
                for worker_id, track in self._tracks.items()
                if track.announcement is not None and track.health.ready_since is not None
            }

    @property
    def settled(self) -> bool:
        """Whether a first look at everything is done: only then is a report more than a guess about workers that an
        earlier agent left."""
        with self._lock:
            return self._last_phases is not None and not any(
                track.process is not None and track.announcement is not None and track.health.unasked
                for track in self._tracks.values()
            )

    async def run(self) -> None:
        """Supervise until `close`; returns when the workers are ended, or left alone, as the settings say."""
        self._loop = asyncio.get_running_loop()
        with self._lock:
            self._recover(time.monotonic())
        caller = WorkerClient(
            self._secret, self._settings.probe_timeout_s, tls=self._worker_tls, named=self._hosts.advertised
        )
        async with caller as client:
            prober = Prober(client, on_answer=self._wake.set, switch_s=self._settings.switch_deadline_s)
            try:
                while not self._done():
                    self._wake.clear()
                    with self._lock:
                        self._tick(time.monotonic(), prober)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._settings.tick_s):
                            await self._wake.wait()
            finally:
                self._loop = None
                await prober.close()

    def _done(self) -> bool:
        if not self._closing:
            return False
        leave = self._settings.on_stop is OnStop.LEAVE
        return leave or all(track.process is None for track in self._tracks.values())

    def _wake_up(self) -> None:
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._wake.set)

    def _recover(self, now: float) -> None:
        for record, process in self._launcher.recover():
            self._tracks[record.spec.worker_id] = Track.recovered(record, process, now)
            log.info("found worker", worker_id=record.spec.worker_id, pid=process.pid if process else None)

    def _tick(self, now: float, prober: Prober) -> None:
        for track in self._tracks.values():
            self._guard(track.spec.worker_id, partial(self._acts.observe, track, now))
        wanted = self._wanted()
        if wanted is not None:
            self._align(wanted)
        actions = diff(wanted, [self._view(track, now) for track in self._tracks.values()], now)
        specs = {worker.worker_id: worker for worker in wanted.workers} if wanted else {}
        for action in actions:
            self._guard(action.worker_id, partial(self._apply, action, specs.get(action.worker_id), now))
        self._talk(now, prober)
        self._applied_generation = self._spec.generation if self._spec else 0
        phases = [(worker_id, track.news(now)) for worker_id, track in self._tracks.items()]
        if (phases, self._applied_generation) != self._last_phases:
            self._last_phases = (phases, self._applied_generation)
            self._on_change()

    def _view(self, track: Track, now: float) -> ProcessView:
        return track.view(now, self._settings, switches_role=self._launcher.switches_role(track.spec))

    def _talk(self, now: float, prober: Prober) -> None:
        """Ask every worker how it is when it is time to, and at once when it is to be told something new."""
        due = now >= self._next_probe
        if due:
            self._next_probe = now + self._settings.probe_interval_s
        for track in self._tracks.values():
            if (due or track.wish != track.told) and track.announcement and track.state is ProcessState.RUNNING:
                worker = self._dialled(track.announcement)
                if prober.exchange(track.announcement, worker, track.health, track.wish):
                    track.told = track.wish

    def _guard(self, worker_id: str, step: Callable[[], None]) -> None:
        """One worker's trouble must not stop the supervision of the others."""
        try:
            step()
        except Exception:
            log.exception("supervision of a worker failed; it is tried again", worker_id=worker_id)

    def _wanted(self) -> NodeSpec | None:
        if not self._closing:
            return self._spec
        workers = self._spec.workers if self._spec else ()
        stopped = tuple(msgspec.structs.replace(worker, desired=WorkerDesired.STOP) for worker in workers)
        return NodeSpec(node_id=self._node_id, generation=self._applied_generation, workers=stopped)

    def _align(self, wanted: NodeSpec) -> None:
        """Give every listed worker a track, and tell every track what is wanted of it."""
        listed = {worker.worker_id: worker for worker in wanted.workers}
        for worker_id, track in self._tracks.items():
            track.desired = listed[worker_id].desired if worker_id in listed else WorkerDesired.STOP
        for worker_id, worker in listed.items():
            known = self._tracks.get(worker_id)
            if known is not None and known.refusal is not None and known.refusal.spec != worker:
                known.refusal = None
            if known is None or (known.process is None and known.spec.incarnation != worker.incarnation):
                self._tracks[worker_id] = Track(
                    spec=worker, desired=worker.desired, restart=worker.restart, reason="is to be started"
                )
            elif known.process is None:
                known.spec = worker
            elif known.spec.incarnation == worker.incarnation:
                known.restart = max(known.restart, worker.restart)

    def _apply(self, action: Action, spec: WorkerSpec | None, now: float) -> None:
        if action.kind is ActionKind.FORGET:
            self._launcher.forget(action.worker_id)
            del self._tracks[action.worker_id]
            return
        if action.kind is ActionKind.STOP and self._closing:
            action = replace(action, reason="its agent is stopping")
        self._acts.apply(action, self._tracks[action.worker_id], spec, now)

    def _dialled(self, announcement: ProcessAnnouncement) -> Address:
        """Where this agent reaches the worker: the address it was told to bind and the port it announced."""
        return Address(host=self._hosts.local, port=announcement.http.port)
