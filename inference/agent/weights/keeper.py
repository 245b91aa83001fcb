"""Brings the weights that a node shall have onto it, one model at a time, and says where each stands.

    WANTED ──> FETCHING ──> PRESENT
                  └──> FAILED ──> WANTED (asked again with a higher attempt)

A directory of this machine is looked at again and again, since people put files there. What was fetched stays until
people remove it: a model that is not wanted now may be wanted again in a minute, and bytes are dear.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from inference.agent.child import run_child
from inference.agent.weights.source import Source, source_of
from inference.agent.weights.store import NotUsable, WeightsStore, check, size_of
from inference.contracts.codec import CodecError, decode
from inference.contracts.models import ModelShape
from inference.contracts.reports import WeightsReport
from inference.contracts.specs import NodeSpec, WeightsSpec
from inference.contracts.states import FetchState, WorkerDesired
from inference.planning.model.folder import read_shape
from inference.process.tasks import end

FETCH_MODULE = "inference.agent.weights.fetch"

#: Between two looks at how far a fetch is, and at whether a directory is as it was.
LOOK_S = 1.0
CHECK_DIRECTORIES_S = 30.0

Key = tuple[str, str]

log = structlog.get_logger()


@dataclass(slots=True)
class _Model:
    spec: WeightsSpec
    state: FetchState = FetchState.WANTED
    size_bytes: int | None = None
    fetched_bytes: int | None = None
    reason: str = ""
    shape: ModelShape | None = None

    @property
    def key(self) -> Key:
        return self.spec.path, self.spec.revision

    def report(self) -> WeightsReport:
        return WeightsReport(
            path=self.spec.path,
            revision=self.spec.revision,
            state=self.state,
            size_bytes=self.size_bytes,
            fetched_bytes=self.fetched_bytes,
            reason=self.reason,
            shape=self.shape,
        )


class WeightsKeeper:
    """`run` belongs to one event loop; the other methods may be called from any thread.

    folder: the agent's. environment: the agent's own. on_change: called when a state has changed.
    """

    def __init__(
        self,
        store: WeightsStore,
        *,
        folder: Path,
        environment: Mapping[str, str],
        on_change: Callable[[], None],
        look_s: float = LOOK_S,
    ) -> None:
        self._store = store
        self._folder = folder
        self._environment = environment
        self._on_change = on_change
        self._look_s = look_s
        self._lock = threading.Lock()
        self._models: dict[Key, _Model] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    def want(self, spec: NodeSpec) -> None:
        """What is to be here from now on: the weights of the spec, and those that its workers can't fetch by
        themselves. A fetch of what is wanted no more is broken off."""
        wanted = {(weights.path, weights.revision): weights for weights in needed(spec)}
        with self._lock:
            kept = {key: model for key, model in self._models.items() if key in wanted}
            for key, weights in wanted.items():
                known = kept.get(key)
                if known is None or weights.attempt > known.spec.attempt:
                    kept[key] = _Model(weights)
            self._models = kept
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._changed.set)

    def reports(self) -> tuple[WeightsReport, ...]:
        """What is wanted, and what else is here."""
        with self._lock:
            reports = {key: model.report() for key, model in self._models.items()}
        for model in self._store.stored():
            reports.setdefault(
                (model.path, model.revision),
                WeightsReport(
                    path=model.path,
                    revision=model.revision,
                    state=FetchState.PRESENT,
                    size_bytes=model.size_bytes,
                    shape=model.shape,
                ),
            )
        return tuple(report for _, report in sorted(reports.items()))

    async def run(self) -> None:
        """Fetch and look until cancelled."""
        self._loop = asyncio.get_running_loop()
        running: tuple[_Model, asyncio.Task[None]] | None = None
        try:
            while True:
                self._changed.clear()
                await asyncio.to_thread(self._look)
                if running is not None and (running[1].done() or not self._is_current(running[0])):
                    await end([running[1]])
                    running = None
                if running is None and (model := self._next()) is not None:
                    running = model, asyncio.create_task(self._fetch(model))
                    running[1].add_done_callback(lambda _: self._changed.set())
                await self._pause(fetching=running is not None)
        finally:
            if running is not None:
                await end([running[1]])

    async def _pause(self, *, fetching: bool) -> None:
        try:
            async with asyncio.timeout(self._look_s if fetching else CHECK_DIRECTORIES_S):
                await self._changed.wait()
        except TimeoutError:
            return

    def _is_current(self, model: _Model) -> bool:
        with self._lock:
            return self._models.get(model.key) is model

    def _next(self) -> _Model | None:
        with self._lock:
            waiting = [model for model in self._models.values() if model.state is FetchState.WANTED]
        return waiting[0] if waiting else None

    # -- looking (in a thread: disks may be slow) --------------------------------------------------

    def _look(self) -> None:
        with self._lock:
            models = list(self._models.values())
        for model in models:
            if source_of(model.spec.path) is Source.DIRECTORY:
                self._look_at_directory(model)
            elif model.state is FetchState.WANTED:
                self._look_at_store(model)
            elif model.state is FetchState.FETCHING:
                model.fetched_bytes = size_of(self._store.partial(*model.key))

    def _look_at_directory(self, model: _Model) -> None:
        folder = Path(model.spec.path).expanduser()
        try:
            size = check(folder)
        except (NotUsable, OSError) as error:
            self._set(model, FetchState.FAILED, reason=str(error))
            return
        as_known = model.state is FetchState.PRESENT and model.size_bytes == size
        self._set(model, FetchState.PRESENT, size=size, shape=model.shape if as_known else read_shape(folder))

    def _look_at_store(self, model: _Model) -> None:
        stored = self._store.find(*model.key)
        if stored is not None:
            self._set(model, FetchState.PRESENT, size=stored.size_bytes, shape=stored.shape)

    # -- fetching --------------------------------------------------------------------------------

    async def _fetch(self, model: _Model) -> None:
        self._set(model, FetchState.FETCHING)
        path, revision = model.key
        log.info("weights are fetched", path=_shown(path), revision=revision)
        try:
            code = await run_child(
                FETCH_MODULE,
                [f"--root={self._store.root}", f"--path={path}", f"--revision={revision}"],
                folder=self._folder,
                environment=self._environment,
                extra={"HF_HUB_DISABLE_PROGRESS_BARS": "1"},
                on_line=lambda line: self._hear(model, line),
            )
        except OSError as error:
            self._set(model, FetchState.FAILED, reason=f"the fetch could not be started: {error}")
            return
        if model.state is FetchState.FETCHING:
            self._set(model, FetchState.FAILED, reason=f"the fetch ended with exit code {code}")
        log.info("fetch is over", path=_shown(path), state=model.state.value, reason=model.reason)

    def _hear(self, model: _Model, line: bytes) -> None:
        try:
            said = decode(line, WeightsReport)
        except CodecError as error:
            log.warning("a fetch said what is no report", error=str(error))
            return
        self._set(model, said.state, size=said.size_bytes, reason=said.reason, shape=said.shape)

    def _set(
        self,
        model: _Model,
        state: FetchState,
        *,
        size: int | None = None,
        reason: str = "",
        shape: ModelShape | None = None,
    ) -> None:
        news = (state, reason, shape) != (model.state, model.reason, model.shape)
        model.state, model.reason, model.shape = state, reason, shape
        model.size_bytes = size if size is not None else model.size_bytes
        if state is FetchState.PRESENT:
            model.fetched_bytes = None
        if news:
            self._on_change()


def needed(spec: NodeSpec) -> tuple[WeightsSpec, ...]:
    """What `spec` asks for, and what its workers need and no engine fetches by itself."""
    listed = {(weights.path, weights.revision): weights for weights in spec.weights}
    for worker in spec.workers:
        if worker.desired is WorkerDesired.RUN and source_of(worker.model_path) in (Source.WEB, Source.UNKNOWN):
            key = worker.model_path, worker.model_revision
            listed.setdefault(key, WeightsSpec(path=key[0], revision=key[1]))
    return tuple(listed.values())


def _shown(path: str) -> str:
    """Without what follows a question mark: signed addresses hold credentials there."""
    return path.partition("?")[0]
