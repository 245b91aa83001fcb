"""A fleet entered through the services, and run on one event loop: nodes with their devices, deployments over REST."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from inference.agent.config import Settings
from inference.contracts import codec, names
from inference.contracts.reports import NodeReport, NodeWelcome
from inference.contracts.specs import NodeSpec, WorkerSpec
from inference.contracts.states import WorkerDesired
from inference.testing.simulated_node import SimulatedNode
from inference.testing.simulated_worker import Behaviour

MODEL = "bench-model"
LOAD_S = (0.5, 2.0)
BUSY = 24


@dataclass
class Made:
    """Reports of one node that are not known to be written: sequence and when each was made, unix seconds."""

    waiting: deque[tuple[int, float]] = field(default_factory=deque)


class WatchedNode(SimulatedNode):
    """Remembers what it reported and when it was last told what to run. spec_at: monotonic."""

    def __init__(self, welcome: NodeWelcome, *, devices: int, seed: int) -> None:
        rng = random.Random(seed)
        super().__init__(
            welcome,
            devices=devices,
            address=f"10.{seed >> 16 & 255}.{seed >> 8 & 255}.{seed & 255}",
            settings=Settings(probe_interval_s=2.0, disk_floor_bytes=0),
            behaviour=Behaviour(load_s=rng.uniform(*LOAD_S), busy=rng.randrange(BUSY)),
        )
        self.made = Made()
        self.wanted: tuple[WorkerSpec, ...] = ()
        self.spec_at = 0.0
        self.on_report = self._note
        self._rng = rng

    def receive(self, task: str, arguments: Sequence[str]) -> None:
        if task == names.TASK_APPLY_NODE_SPEC:
            self.wanted = codec.decode(arguments[0], NodeSpec).workers
            self.spec_at = time.monotonic()
        super().receive(task, arguments)

    def _note(self, report: NodeReport) -> None:
        self.made.waiting.append((report.sequence, time.time()))
        # What a worker does changes all the time, so no two reports are alike.
        self.behaviour.busy = self._rng.randrange(BUSY)


def join(count: int, devices: int) -> list[WatchedNode]:
    """`count` machines become nodes, by tokens and hellos as real ones do."""
    from controlplane.fleet.joining import join_token_create, node_join

    template = SimulatedNode(_nobody(), devices=devices).hello()
    nodes = []
    for number in range(count):
        name = f"node-{number:04d}"
        hello = msgspec.structs.replace(template, name=name, hostname=name)
        token = join_token_create(created_by="bench").raw
        welcome = node_join(token=token, hello=hello, remote_address="127.0.0.1")
        nodes.append(WatchedNode(welcome, devices=devices, seed=number))
    return nodes


def enter_model_and_token() -> str:
    """What is served; and the management token of the bench."""
    from controlplane.access.tokens import token_create
    from controlplane.catalog.services import model_ensure
    from controlplane.core.principal import SYSTEM
    from inference.contracts.states import UserRole

    model_ensure(name=MODEL, path="/models/bench")
    return token_create(by=SYSTEM, owner=None, name="bench", role=UserRole.ADMIN).raw


def wanted_of(nodes: Sequence[WatchedNode], pool_id: str) -> int:
    """Workers of this pool that the nodes have been told to run."""
    return sum(spec.pool_id == pool_id and spec.desired == WorkerDesired.RUN for node in nodes for spec in node.wanted)


def _nobody() -> NodeWelcome:
    return NodeWelcome(node_id="", name="", redis_url="", cluster_secret="", report_interval_s=2.0, node_key="00")
