"""What has to happen so that a node's processes become what its spec wants. Pure: no clock, no processes, no files.

`diff` looks at each worker alone, so every worker gets exactly one action a round, with a reason; only the question
whether a device is free looks across. Run again and again, it leads from any state to the wanted one:

    a process that is not wanted, or is of another incarnation   STOP, and only when it is gone START
    found after the agent's own restart and still wanted         ADOPT
    running but broken                                           KILL, then like one that died by itself
    wanted to drain                                              DRAIN until confirmed, KEEP while busy, then STOP
    wanted again during its drain                                UNDRAIN
    wanted in another role                                       DRAIN, then SWITCH; UNDRAIN when that was refused;
                                                                 where it can't switch, STOP and then START
    gone, wanted, its devices held by nobody else                START (WAIT during back-off, KEEP when failed)
    gone and no longer listed                                    FORGET
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from inference.contracts.specs import NodeSpec, WorkerSpec
from inference.contracts.states import Role, WorkerDesired


class ActionKind(StrEnum):
    START = "start"
    STOP = "stop"
    KILL = "kill"
    ADOPT = "adopt"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    SWITCH = "switch"
    FORGET = "forget"
    WAIT = "wait"
    KEEP = "keep"


#: Actions that leave everything as it is.
PASSIVE = frozenset({ActionKind.WAIT, ActionKind.KEEP})


@dataclass(frozen=True, slots=True)
class Action:
    """What to do about one worker in this round, and why in a few words."""

    kind: ActionKind
    worker_id: str
    reason: str


class ProcessState(StrEnum):
    """FOUND: left by an earlier agent, not looked at yet. RUNNING. STOPPING: told to exit, still there. GONE."""

    FOUND = "found"
    RUNNING = "running"
    STOPPING = "stopping"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ProcessView:
    """What the agent knows of one worker's process.

    served: was ready once, so it may hold requests; None when not known. draining: it confirmed that it takes no new
    ones. idle: it holds none (only ever true together with `draining`). drain_deadline, next_start: monotonic seconds.
    fault: why a running process must be replaced. failed: it is not started again by itself.
    restart: the last operator retry that was honoured.
    role: what the process is. switches_role: its engine can change that while it runs. switch_deadline: until when a
    change that was ordered may take; None while none is under way. refused_role: what the present spec wants it to be
    and it could not become.
    """

    worker_id: str
    incarnation: str
    role: Role
    device_ids: frozenset[str]
    state: ProcessState
    served: bool | None = False
    draining: bool = False
    idle: bool = False
    drain_deadline: float | None = None
    fault: str | None = None
    failed: bool = False
    next_start: float | None = None
    restart: int = 0
    switches_role: bool = False
    switch_deadline: float | None = None
    refused_role: Role | None = None

    @property
    def alive(self) -> bool:
        return self.state is not ProcessState.GONE


def device_ids(spec: WorkerSpec) -> frozenset[str]:
    return frozenset(device.device_id for device in spec.devices)


def diff(spec: NodeSpec | None, processes: Sequence[ProcessView], now: float) -> tuple[Action, ...]:
    """One action for every worker that is listed or has a process.

    spec: the newest one; None while none was ever received: then nothing is started and nothing is ended, because
    "not told" is not "not wanted". processes: at most one per worker id. now: monotonic seconds.
    """
    views = {view.worker_id: view for view in processes}
    if spec is None:
        return tuple(_unguided(view) for view in processes)
    wanted = {worker.worker_id: worker for worker in spec.workers}
    held = {device: view.worker_id for view in processes if view.alive for device in view.device_ids}
    actions = [
        _of_unlisted(view) if view.worker_id not in wanted else _of_present(wanted[view.worker_id], view, now)
        for view in processes
        if view.alive or view.worker_id not in wanted
    ]
    for worker in spec.workers:
        view = views.get(worker.worker_id)
        if view is not None and view.alive:
            continue
        action = _of_absent(worker, view, held, now)
        if action.kind is ActionKind.START:
            held.update(dict.fromkeys(device_ids(worker), worker.worker_id))
        actions.append(action)
    return tuple(actions)


def changes(actions: Iterable[Action]) -> tuple[Action, ...]:
    """The actions that change something. None are left when the node is what its spec wants."""
    return tuple(action for action in actions if action.kind not in PASSIVE)


def _unguided(view: ProcessView) -> Action:
    if view.state is ProcessState.FOUND:
        return Action(ActionKind.ADOPT, view.worker_id, "was left running; no spec is known yet")
    return Action(ActionKind.KEEP, view.worker_id, "no spec is known yet")


def _of_unlisted(view: ProcessView) -> Action:
    if not view.alive:
        return Action(ActionKind.FORGET, view.worker_id, "gone and no longer wanted")
    return _stop(view, "no longer wanted on this node")


def _stop(view: ProcessView, reason: str) -> Action:
    if view.state is ProcessState.STOPPING:
        return Action(ActionKind.KEEP, view.worker_id, "is stopping")
    return Action(ActionKind.STOP, view.worker_id, reason)


def _of_present(worker: WorkerSpec, view: ProcessView, now: float) -> Action:
    """Action for a listed worker that has a process."""
    if worker.desired is WorkerDesired.STOP:
        return _stop(view, "is wanted to stop")
    if worker.incarnation != view.incarnation:
        return _stop(view, f"replaced by incarnation {worker.incarnation}")
    if view.state is ProcessState.STOPPING:
        return Action(ActionKind.KEEP, view.worker_id, "is stopping")
    if view.state is ProcessState.FOUND:
        return Action(ActionKind.ADOPT, view.worker_id, "was left running by an earlier agent and is still wanted")
    if view.fault is not None:
        return Action(ActionKind.KILL, view.worker_id, view.fault)
    if worker.desired is WorkerDesired.DRAIN:
        return _drain(view, now)
    if view.switch_deadline is not None:
        return _finish_switch(worker, view, view.switch_deadline, now)
    if worker.role not in (view.role, view.refused_role):
        return _change_role(worker, view, now)
    if view.draining or view.drain_deadline is not None:
        return Action(ActionKind.UNDRAIN, view.worker_id, "is wanted again")
    if worker.role is view.refused_role:
        return Action(ActionKind.KEEP, view.worker_id, f"stays {view.role}: it could not become {worker.role}")
    return Action(ActionKind.KEEP, view.worker_id, "runs as wanted")


def _change_role(worker: WorkerSpec, view: ProcessView, now: float) -> Action:
    """Empty the worker first. What can't be switched, or is not empty in time, ends and is started in the new role."""
    if view.served is False:
        if view.switches_role:
            return Action(ActionKind.KEEP, view.worker_id, f"loads first, then becomes {worker.role}")
        return Action(ActionKind.STOP, view.worker_id, f"has not served yet and is started anew as {worker.role}")
    if view.drain_deadline is not None and now >= view.drain_deadline:
        return Action(
            ActionKind.STOP, view.worker_id, f"the drain deadline has passed; it is started anew as {worker.role}"
        )
    if not view.draining or view.drain_deadline is None:
        return Action(ActionKind.DRAIN, view.worker_id, f"finishes what it has, then becomes {worker.role}")
    if not view.idle:
        return Action(ActionKind.KEEP, view.worker_id, f"drains, then becomes {worker.role}")
    if view.switches_role:
        return Action(ActionKind.SWITCH, view.worker_id, f"is drained and becomes {worker.role}")
    return Action(
        ActionKind.STOP,
        view.worker_id,
        f"is drained; as its engine can't turn {view.role} into {worker.role}, it is started anew as {worker.role}",
    )


def _finish_switch(worker: WorkerSpec, view: ProcessView, deadline: float, now: float) -> Action:
    """A change that was ordered is always brought to its end, whatever is wanted meanwhile: then it is known what the
    worker is."""
    if now >= deadline:
        return Action(
            ActionKind.KILL, view.worker_id, f"hung in a change of its role; it is started anew as {worker.role}"
        )
    return Action(ActionKind.KEEP, view.worker_id, "changes its role")


def _drain(view: ProcessView, now: float) -> Action:
    if view.served is False:
        return Action(ActionKind.STOP, view.worker_id, "has not served yet, so nothing is to be finished")
    if view.drain_deadline is not None and now >= view.drain_deadline:
        return Action(ActionKind.STOP, view.worker_id, "the drain deadline has passed")
    if not view.draining or view.drain_deadline is None:
        return Action(ActionKind.DRAIN, view.worker_id, "finishes what it has and takes nothing new")
    if view.idle:
        return Action(ActionKind.STOP, view.worker_id, "is drained: nothing runs, waits or is handed over")
    return Action(ActionKind.KEEP, view.worker_id, "drains")


def _of_absent(worker: WorkerSpec, view: ProcessView | None, held: dict[str, str], now: float) -> Action:
    """Action for a listed worker without a process."""
    worker_id = worker.worker_id
    if worker.desired is not WorkerDesired.RUN:
        return Action(ActionKind.KEEP, worker_id, "is stopped")
    same = view if view is not None and view.incarnation == worker.incarnation else None
    retried = same is not None and worker.restart > same.restart
    if same is not None and not retried:
        if same.failed:
            return Action(ActionKind.KEEP, worker_id, "has failed and waits for an operator")
        if same.next_start is not None and now < same.next_start:
            return Action(ActionKind.WAIT, worker_id, "backs off")
    for device in sorted(device_ids(worker)):
        if device in held:
            return Action(ActionKind.WAIT, worker_id, f"waits for device {device}, which worker {held[device]} holds")
    return Action(ActionKind.START, worker_id, "retried by an operator" if retried else "is wanted and does not run")
