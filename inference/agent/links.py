"""Measurements of the network between this node and others, as the spec lists them: one process at a time.

    listed ──> waits its turn ──> runs ──> is over (result or error) ──> forgotten once it is listed no more

The turn goes by measurement id, the same order on every node, so that nodes never wait for each other in a circle. A
sending side whose peer is not known yet waits in its turn; its deadline counts from there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import structlog

from inference.agent.child import run_child
from inference.agent.hosts import Hosts
from inference.contracts.codec import CodecError, decode
from inference.contracts.reports import LinkReport
from inference.contracts.specs import LinkSpec
from inference.process.tasks import end

PROBE_MODULE = "inference.transfer.probe"
#: The process has its own deadline; it is killed this many seconds after that.
GRACE_S = 5.0
#: Bounds of what a spec may ask for.
LONGEST_S = 300.0
MOST_BYTES = 4 * 1024**3

log = structlog.get_logger()


@dataclass(slots=True)
class _Measurement:
    """over: it has ended, with a result or an error in `report`, or well without either (the listening side)."""

    spec: LinkSpec
    report: LinkReport
    over: bool = False


class Links:
    """`run` belongs to one event loop; the other methods may be called from any thread.

    secret_file: holds the cluster secret. folder: the agent's. on_change: called when a report would say something new.
    """

    def __init__(
        self,
        *,
        hosts: Hosts,
        secret_file: Path,
        folder: Path,
        environment: Mapping[str, str],
        on_change: Callable[[], None],
    ) -> None:
        self._hosts = hosts
        self._secret_file = secret_file
        self._folder = folder
        self._environment = environment
        self._on_change = on_change
        self._lock = threading.Lock()
        self._known: dict[str, _Measurement] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    def want(self, specs: Sequence[LinkSpec]) -> None:
        """What is to be measured from now on. One that is listed no more is ended, if it runs, and forgotten."""
        listed = {spec.measurement_id: spec for spec in specs}
        with self._lock:
            self._known = {name: known for name, known in self._known.items() if name in listed}
            for name, spec in listed.items():
                known = self._known.get(name)
                if known is None:
                    self._known[name] = _Measurement(spec, LinkReport(measurement_id=name))
                else:
                    known.spec = spec
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._changed.set)

    def reports(self) -> tuple[LinkReport, ...]:
        with self._lock:
            return tuple(known.report for _, known in sorted(self._known.items()))

    async def run(self) -> None:
        """Measure until cancelled."""
        self._loop = asyncio.get_running_loop()
        running: tuple[str, asyncio.Task[None]] | None = None
        try:
            while True:
                self._changed.clear()
                if running is not None and (running[1].done() or self._spec(running[0]) is None):
                    await end([running[1]])
                    running = None
                if running is None and (name := self._next()) is not None:
                    running = name, asyncio.create_task(self._measure(name))
                    running[1].add_done_callback(lambda _: self._changed.set())
                await self._changed.wait()
        finally:
            if running is not None:
                await end([running[1]])

    def _next(self) -> str | None:
        with self._lock:
            return min((name for name, known in self._known.items() if not known.over), default=None)

    async def _measure(self, name: str) -> None:
        """One measurement from its turn to its end."""
        spec = self._spec(name)
        if spec is None:
            return
        deadline_s = min(spec.deadline_s, LONGEST_S)
        try:
            async with asyncio.timeout(deadline_s):
                spec = await self._startable(name)
            async with asyncio.timeout(deadline_s + GRACE_S):
                self._conclude(name, await self._probe(spec, deadline_s))
        except TimeoutError:
            missing = "" if _is_startable(spec) else ": no peer was named"
            self._fail(name, f"it was not over within {deadline_s:g} s{missing}")
        except OSError as error:
            self._fail(name, f"the measurement could not be started: {error}")
        finally:
            self._close(name)

    async def _probe(self, spec: LinkSpec, deadline_s: float) -> int:
        return await run_child(
            PROBE_MODULE,
            self._arguments(spec, deadline_s),
            folder=self._folder,
            environment=self._environment,
            extra={"TANDEM_CLUSTER_SECRET_FILE": str(self._secret_file)},
            on_line=partial(self._hear, spec.measurement_id),
        )

    async def _startable(self, name: str) -> LinkSpec:
        """Its spec, once that names the peer."""
        while True:
            spec = self._spec(name)
            if spec is not None and _is_startable(spec):
                return spec
            await asyncio.sleep(0.05)

    def _arguments(self, spec: LinkSpec, deadline_s: float) -> list[str]:
        side = (
            ["--listen", self._hosts.bind, "--advertise", self._hosts.advertised]
            if spec.listen
            else ["--send", f"{spec.peer_host}:{spec.peer_port}"]
        )
        size = min(max(1, spec.size_bytes), MOST_BYTES)
        return [f"--measurement={spec.measurement_id}", *side, f"--size={size}", f"--deadline={deadline_s:g}"]

    def _hear(self, name: str, line: bytes) -> None:
        try:
            said = decode(line, LinkReport)
        except CodecError as error:
            log.warning("a measurement said what is no report", measurement=name, error=str(error))
            return
        self._tell(msgspec.structs.replace(said, measurement_id=name))

    def _conclude(self, name: str, code: int) -> None:
        """A process that failed without a word still has an end that can be told."""
        with self._lock:
            known = self._known.get(name)
            told = known is not None and (known.report.error or known.report.bytes_per_s is not None)
        if code != 0 and not told:
            self._fail(name, f"the measurement ended with exit code {code}")

    def _fail(self, name: str, error: str) -> None:
        self._tell(LinkReport(measurement_id=name, error=error))

    def _tell(self, said: LinkReport) -> None:
        """Keep what is new of a measurement; an address that was told stays told."""
        with self._lock:
            known = self._known.get(said.measurement_id)
            if known is None:
                return
            known.report = msgspec.structs.replace(said, address=said.address or known.report.address)
        self._on_change()

    def _close(self, name: str) -> None:
        with self._lock:
            if name in self._known:
                self._known[name].over = True

    def _spec(self, name: str) -> LinkSpec | None:
        with self._lock:
            known = self._known.get(name)
            return known.spec if known is not None else None


def _is_startable(spec: LinkSpec) -> bool:
    return spec.listen or spec.peer_port is not None
