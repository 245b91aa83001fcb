"""A small world around the pools app: nodes with agents that do as their specs say, and a Celery that runs at once.

The agents live in memory and speak the real messages; everything of the control plane is real.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings

from controlplane.catalog.models import Model
from controlplane.fleet.models import Device, Node
from controlplane.operations.models import Operation
from controlplane.operations.services import operation_cancel, operation_retry
from controlplane.pools import selectors, services, tasks
from controlplane.pools.models import Allocation, Deployment, Pool, Worker
from controlplane.pools.presenters import deployment_view
from controlplane.pools.routing import deployment_routes
from controlplane.pools.services import Resized, Shape
from inference.contracts import codec, names
from inference.contracts.abilities import Abilities
from inference.contracts.reports import Address, DeviceReport, LinkReport, NodeReport, WorkerLoad, WorkerReport
from inference.contracts.specs import EngineSettings, LinkSpec, NodeSpec, WorkerSpec
from inference.contracts.states import DeviceKind, NodePhase, Role, WorkerDesired, WorkerPhase
from inference.contracts.views.pools import DeploymentView
from tests.control.conftest import OPERATOR, Clock, Outbox

T = TypeVar("T")

FINGERPRINT = "fingerprint-of-all"
ABLE = Abilities(vocab_size=100, chat=True)
IDLE = WorkerLoad(running=0, waiting=0, waiting_tokens=0, kv_blocks_used=0, kv_blocks_total=100)


@dataclass
class Process:
    """One worker as its agent sees it. role: what it is now. refuses: it can't be switched, and says so."""

    spec: WorkerSpec
    phase: WorkerPhase = WorkerPhase.STARTING
    fingerprint: str = FINGERPRINT
    load: WorkerLoad | None = None
    reason: str = ""
    attempts: int = 1
    log_tail: tuple[str, ...] = ()
    role: Role = Role.UNIFIED
    refuses: str = ""
    refused_role: Role | None = None
    abilities: Abilities | None = ABLE

    def __post_init__(self) -> None:
        self.role = self.spec.role

    def report(self) -> WorkerReport:
        up = self.phase in (WorkerPhase.READY, WorkerPhase.DRAINING)
        return WorkerReport(
            worker_id=self.spec.worker_id,
            incarnation=self.spec.incarnation,
            role=self.role,
            refused_role=self.refused_role,
            revision=self.spec.revision,
            phase=self.phase,
            http=Address(host="10.0.0.1", port=9000) if up else None,
            transfer=Address(host="10.0.0.1", port=9001) if up else None,
            fingerprint=self.fingerprint if up else None,
            context_length=2048 if up else None,
            abilities=self.abilities if up else None,
            attempts=self.attempts,
            reason=self.reason,
            log_tail=self.log_tail,
            load=(self.load or IDLE) if up else None,
        )


@dataclass
class Agent:
    """What a node agent does, without processes: it takes newer specs, starts, drains and stops as they say."""

    node_id: str
    slots: int
    kind: DeviceKind = DeviceKind.CPU
    boot_id: str = "boot-1"
    sequence: int = 0
    generation: int = 0
    processes: dict[str, Process] = field(default_factory=dict)
    links: tuple[LinkSpec, ...] = ()

    def take(self, spec: NodeSpec) -> None:
        if spec.generation <= self.generation:
            return
        self.generation, self.links = spec.generation, spec.links
        listed = {worker.worker_id: worker for worker in spec.workers}
        for worker_id in [each for each in self.processes if each not in listed]:
            del self.processes[worker_id]
        for worker_id, worker in listed.items():
            process = self.processes.setdefault(worker_id, Process(worker))
            if process.spec.incarnation != worker.incarnation:
                process = self.processes[worker_id] = Process(worker)
            self._follow(process, worker)

    @staticmethod
    def _follow(process: Process, worker: WorkerSpec) -> None:
        if worker.restart > process.spec.restart:
            process.phase, process.attempts, process.reason = WorkerPhase.STARTING, 1, ""
        if worker.role != process.spec.role:
            process.refused_role = None
        process.spec = worker
        busy = worker.desired == WorkerDesired.DRAIN or worker.role not in (process.role, process.refused_role)
        if busy and process.phase == WorkerPhase.READY:
            process.phase = WorkerPhase.DRAINING
        elif not busy and process.phase == WorkerPhase.DRAINING:
            process.phase = WorkerPhase.READY

    def come_up(self) -> None:
        """Whatever starts becomes ready."""
        for process in self.processes.values():
            if process.phase in (WorkerPhase.STARTING, WorkerPhase.LOADING):
                process.phase = WorkerPhase.READY

    def finish_drains(self) -> None:
        """Whoever drains has nothing left: it stops, or changes its role if that is what it drains for."""
        for process in self.processes.values():
            if process.phase == WorkerPhase.DRAINING and process.spec.desired == WorkerDesired.RUN:
                self._switch(process)
            elif process.phase == WorkerPhase.DRAINING:
                process.phase = WorkerPhase.STOPPED

    @staticmethod
    def _switch(process: Process) -> None:
        process.phase = WorkerPhase.READY
        if process.refuses:
            process.refused_role, process.reason = process.spec.role, process.refuses
        else:
            process.role = process.spec.role

    def message(self) -> NodeReport:
        self.sequence += 1
        return NodeReport(
            node_id=self.node_id,
            boot_id=self.boot_id,
            sequence=self.sequence,
            observed_generation=self.generation,
            hostname="host",
            address="10.0.0.1",
            agent_version="test",
            devices=tuple(
                DeviceReport(device_id=f"{self.kind}-{index}", kind=self.kind, index=index, name="slot", cores=(index,))
                for index in range(self.slots)
            ),
            workers=tuple(process.report() for process in self.processes.values()),
            links=tuple(_measured(link) for link in self.links),
            cpu_cores=self.slots,
            memory_total=8 << 30,
            memory_used=1 << 30,
        )


def _measured(link: LinkSpec) -> LinkReport:
    """Every network of these worlds is equally fast."""
    if link.listen:
        return LinkReport(measurement_id=link.measurement_id, address=Address(host="10.0.0.1", port=9100))
    return LinkReport(measurement_id=link.measurement_id, bytes_per_s=1e9, latency_s=1e-4)


Capture = Callable[..., AbstractContextManager[Any]]


class World:
    """Nodes by name, one deployment called "m", and everything that was sent."""

    def __init__(self, now: Clock, outbox: Outbox, capture: Capture | None) -> None:
        self.now = now
        self.outbox = outbox
        self.agents: dict[str, Agent] = {}
        self.specs: list[NodeSpec] = []
        self.reconciles = 0
        self.unreachable: dict[str, list[NodeSpec]] = {}
        self._capture = capture
        Model.objects.create(name="tiny", path="/models/tiny", created_at=now())

    # -- the fleet

    def node(self, name: str = "a", slots: int = 4, kind: DeviceKind = DeviceKind.CPU) -> Agent:
        node = Node.objects.create(name=name, hostname=name, address="10.0.0.1", joined_at=self.now())
        agent = Agent(node_id=str(node.pk), slots=slots, kind=kind)
        self.agents[name] = agent
        self.report(name)
        return agent

    def report(self, *only: str) -> None:
        """Nodes report, and everything that follows from it happens."""
        self.now.advance(1)
        for name in only or tuple(self.agents):
            with self.committing():
                tasks.record_node_report(codec.encode_text(self.agents[name].message()))
        self.settle()

    def deliver(self, message: NodeReport) -> None:
        """A report that was made earlier arrives now."""
        with self.committing():
            tasks.record_node_report(codec.encode_text(message))
        self.settle()

    def come_up(self) -> None:
        for agent in self.agents.values():
            agent.come_up()
        self.report()

    def finish_drains(self) -> None:
        for agent in self.agents.values():
            agent.finish_drains()
        self.report()

    def lose(self, name: str) -> None:
        """No report passes until `find`, and specs wait in the node's queue."""
        self.unreachable[name] = []
        Node.objects.filter(name=name).update(phase=NodePhase.LOST)
        self.sweep()

    def find(self, name: str) -> None:
        """The agent reports what it has, and then takes what waited for it."""
        self.report(name)
        for spec in self.unreachable.pop(name):
            self.agents[name].take(spec)
        self.report(name)

    # -- what operators do

    def deploy(
        self,
        *,
        prefill: int = 0,
        decode: int = 0,
        unified: int = 0,
        name: str = "m",
        shape: dict[str, Any] | None = None,
        **more: Any,
    ) -> Operation:
        self.now.advance(1)
        counts = {Role.PREFILL: prefill, Role.DECODE: decode, Role.UNIFIED: unified}
        with self.committing():
            _, operation = services.deployment_create(
                name=name, model="tiny", shape=Shape(counts=counts, **shape or {}), requested_by=OPERATOR, **more
            )
        self.settle()
        return operation

    def resize(self, role: str, replicas: int, *, generation: int | None = None) -> Resized:
        self.now.advance(1)
        pool = self.pool(role)
        with self.committing():
            resized = services.pool_resize(
                pool_id=pool.pk,
                generation=pool.generation if generation is None else generation,
                replicas=replicas,
                requested_by=OPERATOR,
            )
        self.settle()
        return resized

    def rebalance(self, prefill: int, decode: int, **more: Any) -> Operation:
        self.now.advance(1)
        generations = {Role.PREFILL: self.pool("prefill").generation, Role.DECODE: self.pool("decode").generation}
        return self.ask(
            services.deployment_rebalance,
            name="m",
            prefill=prefill,
            decode=decode,
            **({"generations": generations} | more),
        )

    def flip(self, worker: str, **more: Any) -> Operation:
        return self.ask(services.worker_flip, worker_id=self.worker(worker).pk, **more)

    def restart(self, worker: str, **more: Any) -> Operation:
        return self.ask(services.worker_restart, worker_id=self.worker(worker).pk, **more)

    def roll_out(self, **more: Any) -> Operation:
        """New settings, unless said otherwise."""
        self.now.advance(1)
        return self.ask(services.deployment_roll_out, name="m", **({"settings": EngineSettings(kv_tokens=4096)} | more))

    def roll_back(self, **more: Any) -> Operation:
        self.now.advance(1)
        return self.ask(services.deployment_roll_back, name="m", **more)

    def cancel(self, operation: Operation) -> Operation:
        with self.committing():
            cancelled = operation_cancel(operation.pk, by=OPERATOR)
        self.settle()
        return cancelled

    def retry(self, operation: Operation) -> Operation:
        with self.committing():
            again = operation_retry(operation.pk, by=OPERATOR)
        self.settle()
        return again

    def ask(self, service: Callable[..., T], **wanted: Any) -> T:
        """A service that somebody asks for, and all that follows from it."""
        with self.committing():
            answered = service(requested_by=OPERATOR, **wanted)
        self.settle()
        return answered

    def delete(self, name: str = "m") -> Operation:
        with self.committing():
            operation = services.deployment_delete(name=name, requested_by=OPERATOR)
        self.settle()
        return operation

    # -- Celery, at once

    def settle(self) -> None:
        """Run every task that was sent, and those that they send, until there are none."""
        for _ in range(50):
            if not self.outbox.tasks:
                return
            sent, self.outbox.tasks[:] = list(self.outbox.tasks), []
            for task, arguments, _queue in sent:
                self._run(task, *arguments)
        raise AssertionError("tasks send each other without end")

    def _run(self, task: str, argument: Any, *_code: Any) -> None:
        if task == names.TASK_RECONCILE_POOL:
            self.reconciles += 1
            with self.committing():
                tasks.reconcile_pool(argument)
        elif task == names.TASK_APPLY_NODE_SPEC:
            spec = codec.decode(argument, NodeSpec)
            self.specs.append(spec)
            for name, agent in self.agents.items():
                if agent.node_id == spec.node_id:
                    self.unreachable[name].append(spec) if name in self.unreachable else agent.take(spec)

    def sweep(self) -> None:
        """As soon as another one is due."""
        self.now.advance(settings.SWEEP_INTERVAL_S / 2)
        with self.committing():
            tasks.sweep()
        self.settle()

    @contextmanager
    def committing(self) -> Iterator[None]:
        if self._capture is None:
            yield
        else:
            with self._capture(execute=True):
                yield

    # -- looking

    def deployment(self) -> Deployment:
        return Deployment.objects.get(name="m")

    def view(self) -> DeploymentView:
        return deployment_view(selectors.deployment_get("m"))

    def pool(self, role: str) -> Pool:
        return Pool.objects.get(deployment__name="m", role=role)

    def worker(self, name: str) -> Worker:
        return Worker.objects.get(name=name)

    def process(self, name: str) -> Process:
        """The process of a worker, wherever it runs."""
        worker_id = str(self.worker(name).pk)
        return next(agent.processes[worker_id] for agent in self.agents.values() if worker_id in agent.processes)

    def phases(self) -> dict[str, str]:
        return {worker.name: worker.phase for worker in Worker.objects.order_by("name")}

    def wanted(self) -> dict[str, str]:
        return {worker.name: worker.desired for worker in Worker.objects.order_by("name")}

    def operation(self, operation: Operation) -> Operation:
        return Operation.objects.get(pk=operation.pk)

    def outcome(self, operation: Operation) -> tuple[str, str]:
        """Its state and outcome."""
        row = self.operation(operation)
        return row.state, row.outcome

    def serving(self) -> Counter[tuple[str, int]]:
        """Workers that routers are told of, by role and revision."""
        routes = deployment_routes()
        return Counter((str(worker.role), worker.revision) for route in routes for worker in route.workers)

    def steps(self, operation: Operation) -> list[str]:
        return list(operation.steps.values_list("text", flat=True))

    def free_devices(self) -> int:
        return Device.objects.filter(missing=False, allocation=None).count()

    def allocations(self) -> set[tuple[int, UUID]]:
        return set(Allocation.objects.values_list("device_id", "worker_id"))
