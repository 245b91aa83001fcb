"""A node without a machine: the real agent's supervisor, inbox, seal and reports, around workers that are no processes.

It has no thread and waits for nothing: whoever owns it (`SimulatedFleet`, or a test) hands it its messages and calls
`step` when `due` has come. Faults are set from outside at any time:

    node.freeze(), node.thaw()      neither takes nor reports; its workers serve on
    node.lose()                     gone with its workers
    node.restart()                  the agent is killed and started again; adopts its workers
    node.clock_offset_s = 600       its own clock is wrong
    node.crash("w1"), node.hang("w1"), node.break_device("gpu-0", "fell off the bus")
    node.behaviour.drain_s = 5      see `Behaviour`
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from inference.agent.config import Settings
from inference.agent.control.acceptance import SpecRefused
from inference.agent.control.inbox import Inbox
from inference.agent.control.seal import Seal
from inference.agent.control.self_report import SelfReport
from inference.agent.hardware.inventory import Inventory
from inference.agent.hosts import Hosts
from inference.agent.state_dir import StateDir
from inference.agent.workers.supervisor import Supervisor
from inference.contracts.codec import encode, encode_text
from inference.contracts.names import TASK_APPLY_NODE_SPEC, TASK_RECORD_NODE_REPORT, TASK_SEND_LOG, log_reply_key
from inference.contracts.reports import LogReply, NodeHello, NodeReport, NodeWelcome, WorkerReport
from inference.contracts.specs import LogRequest, NodeSpec
from inference.contracts.states import WorkerPhase
from inference.testing.simulated_hardware import SimulatedInventory, links_of, weights_of
from inference.testing.simulated_state import SimulatedState
from inference.testing.simulated_worker import Behaviour, InstantProber, SimulatedClient, SimulatedLauncher

_SETTLED = frozenset({WorkerPhase.READY, WorkerPhase.STOPPED, WorkerPhase.FAILED})

#: Most looks in a row at what one message set going.
_MOST_LOOKS = 50


@dataclass(frozen=True, slots=True)
class Sent:
    """What a node gives to the broker. task: None for a reply that is pushed to `key` as it is."""

    task: str | None
    key: str
    body: tuple[str, ...]


class SimulatedNode:
    """One node. welcome: as from a join; see `hello`. name: what people call it, and its host name. devices: GPUs.
    settings: of its agent; probes and looks are as often as these say. Times are monotonic seconds."""

    def __init__(
        self,
        welcome: NodeWelcome,
        *,
        name: str = "",
        devices: int = 8,
        address: str = "127.0.0.1",
        settings: Settings | None = None,
        behaviour: Behaviour | None = None,
    ) -> None:
        self.node_id = welcome.node_id
        self.name = name or welcome.name
        self.behaviour = behaviour or Behaviour()
        self.clock_offset_s = 0.0
        self.settings = settings or Settings(probe_interval_s=2.0, disk_floor_bytes=0)
        self.report_interval_s = self.settings.report_interval_s or welcome.report_interval_s
        self.reports_made = 0
        self.is_silent = False
        #: Called when a fault, set or mended, has moved `due`.
        self.on_due: Callable[[], None] = lambda: None
        #: Called with each report as it is made, before it is sent.
        self.on_report: Callable[[NodeReport], None] = lambda _: None
        self._welcome = welcome
        self._hosts = Hosts(advertised=address, bind=address)
        self._inventory = SimulatedInventory(devices)
        self._seal = Seal(welcome.node_key)
        self._inbox = Inbox(seal=self._seal, submit=self._submit, send_log=self._send_log)
        self._state = SimulatedState(Path.cwd())
        self._launcher = SimulatedLauncher(self._state, self._hosts, self.behaviour)
        self._outbox: list[Sent] = []
        self._next_look = self._next_report = 0.0
        self._again = False
        self._start_agent()

    # -- what an owner calls -----------------------------------------------------------------------

    def hello(self) -> NodeHello:
        """What it would say at a join (`node_id` empty) or at a start."""
        return self._says.hello(node_id=self.node_id, name=self.name)

    def receive(self, task: str, arguments: Sequence[str]) -> None:
        """Take one message of its queue, as the task that it is."""
        if task == TASK_APPLY_NODE_SPEC:
            self._inbox.apply_node_spec(*arguments)
        elif task == TASK_SEND_LOG:
            self._inbox.send_worker_log(*arguments)

    @property
    def due(self) -> float:
        """When `step` has something to do next."""
        return math.inf if self.is_silent else min(self._next_look, self._next_report)

    def step(self) -> list[Sent]:
        """Do what is due; what is to be sent."""
        now = time.monotonic()
        if now >= self._next_look:
            self._look(now)
        if now >= self._next_report:
            self._next_report = now + self.report_interval_s
            if self._supervision.settled:
                self._outbox.append(self._report())
        sent, self._outbox = self._outbox, []
        return sent

    @property
    def refused(self) -> int:
        """Messages without a right code so far."""
        return self._seal.refused

    @property
    def generation(self) -> int:
        return self._supervision.observed_generation

    @property
    def workers(self) -> tuple[WorkerReport, ...]:
        """As its next report will tell them."""
        return self._supervision.reports()

    # -- faults ------------------------------------------------------------------------------------

    def freeze(self) -> None:
        self.is_silent = True
        self.on_due()

    def thaw(self) -> None:
        self.is_silent = False
        self._look_now()

    def lose(self) -> None:
        self.freeze()
        for process in self._launcher.running.values():
            process.die()

    def restart(self, *, with_workers: bool = True) -> None:
        """A new start of the agent, on the same folder. with_workers: they served on meanwhile."""
        if not with_workers:
            for process in self._launcher.running.values():
                process.die()
        self.is_silent = False
        self._start_agent()
        self.on_due()

    def crash(self, worker_id: str) -> None:
        for process in self._launcher.running.values():
            if process.spec.worker_id == worker_id:
                process.die()
        self._look_now()

    def hang(self, worker_id: str) -> None:
        for process in self._launcher.running.values():
            process.hung = process.hung or process.spec.worker_id == worker_id

    def break_device(self, device_id: str, fault: str) -> None:
        """An empty fault mends it."""
        self._inventory.faults[device_id] = fault
        self._look_now()

    def _look_now(self) -> None:
        self._next_look = self._next_report = time.monotonic()
        self.on_due()

    # -- inside ------------------------------------------------------------------------------------

    def _start_agent(self) -> None:
        now = time.monotonic()
        self._says = SelfReport(
            hosts=self._hosts,
            inventory=cast(Inventory, self._inventory),
            data=self._state.root,
            clock=lambda: time.time() + self.clock_offset_s,
            hostname=self.name,
            engines={"native": "simulated"},
        )
        self._supervision = _Supervision(
            node_id=self.node_id,
            state=self._state,
            hosts=self._hosts,
            launcher=self._launcher,
            settings=self.settings,
            secret=self._welcome.cluster_secret,
            on_change=self._note_change,
            on_answer=self._note_answer,
        )
        self._next_look = self._next_report = now

    def _submit(self, spec: NodeSpec) -> bool:
        try:
            new = self._supervision.submit(spec)
        except SpecRefused:
            self._next_report = time.monotonic()
            raise
        self._next_look = min(self._next_look, time.monotonic())
        if new and spec.report_interval_s is not None:
            self.report_interval_s = self.settings.report_interval_s or spec.report_interval_s
        return new

    def _note_change(self) -> None:
        """Worth a report at once."""
        self._again = True
        self._next_report = min(self._next_report, time.monotonic() + self.settings.debounce_s)

    def _note_answer(self) -> None:
        self._again = True

    def _look(self, now: float) -> None:
        """Look until nothing changes any more, as the real supervisor does in its next ticks."""
        for _ in range(_MOST_LOOKS):
            self._again = False
            self._supervision.look(now)
            if not self._again:
                break
        pause = self.settings.tick_s if self._supervision.is_moving(now) else self.settings.probe_interval_s
        self._next_look = now + pause

    def _report(self) -> Sent:
        self.reports_made += 1
        spec = self._state.spec
        report: NodeReport = self._says.report(
            node_id=self.node_id,
            observed_generation=self._supervision.observed_generation,
            holders=self._supervision.holders(),
            workers=self._supervision.reports(),
            weights=weights_of(spec),
            links=links_of(spec, self._hosts.advertised),
            refused_spec=self._supervision.refused_spec,
        )
        self.on_report(report)
        text = encode_text(report)
        return Sent(TASK_RECORD_NODE_REPORT, "", (text, self._seal.code(TASK_RECORD_NODE_REPORT, text)))

    def _send_log(self, request: LogRequest) -> None:
        reply = LogReply(lines=(f"simulated log of {request.worker_id}",))
        self._outbox.append(Sent(None, log_reply_key(request.request_id), (encode(reply).decode(),)))
        self._next_look = time.monotonic()


class _Supervision(Supervisor):
    """The real supervisor, whose ticks are made by hand."""

    def __init__(
        self,
        *,
        node_id: str,
        state: SimulatedState,
        hosts: Hosts,
        launcher: SimulatedLauncher,
        settings: Settings,
        secret: str,
        on_change: Callable[[], None],
        on_answer: Callable[[], None],
    ) -> None:
        super().__init__(
            node_id=node_id,
            cluster_secret=secret,
            hosts=hosts,
            state=cast(StateDir, state),
            launcher=launcher,
            settings=settings,
            on_change=on_change,
        )
        self._prober = InstantProber(SimulatedClient(launcher), on_answer, settings.switch_deadline_s)
        self._recover(time.monotonic())

    def look(self, now: float) -> None:
        self._tick(now, self._prober)

    def is_moving(self, now: float) -> bool:
        """Whether a worker is on its way to something: then it is looked at as often as a real one."""
        return any(track.phase(now) not in _SETTLED for track in self._tracks.values())
