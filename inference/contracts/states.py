"""States and roles, each with its legal moves and with who may make them.

One enum feeds the database columns, the wire, the REST schema and the generated TypeScript of the console.
"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a worker does for a request.

    PREFILL reads prompts and hands the KV cache over; DECODE writes answers (and may prefill short prompts
    itself); UNIFIED does both for every request and never takes part in a hand-off.
    """

    PREFILL = "prefill"
    DECODE = "decode"
    UNIFIED = "unified"


#: Roles that write answers: the router reserves KV blocks on one of these first.
ANSWERING_ROLES = frozenset({Role.DECODE, Role.UNIFIED})


class WorkerDesired(StrEnum):
    """What the control plane wants of a worker. Written by services only.

    RUN ──> DRAIN ──> STOP
     ^        │
     └────────┘  (a resize-up may cancel a drain)
    """

    RUN = "run"
    DRAIN = "drain"
    STOP = "stop"


class WorkerPhase(StrEnum):
    """What a worker is seen to be. Written from node reports only, except where marked.

        ASSIGNED ──> STARTING ──> LOADING ──> READY ──> DRAINING ──> STOPPING ──> STOPPED
                        ^  │         │          │           │            ^
                        │  └────┬────┴──────────┴───────────┘            │
                        │       v (process died)                         │ (desired = stop, from any phase)
                        └── BACKOFF ──> FAILED                           │
                                        (attempts used up, or an error that a restart cannot mend)

    ASSIGNED: the row exists, its node has not reported it yet (control plane).
    STARTING: the process is launched and does not answer yet (agent).
    LOADING: the process answers and loads weights (agent).
    READY: weights are loaded and a token was generated (agent).
    DRAINING: takes no new requests; finishes what it has (agent).
    STOPPING: told to exit (agent).   STOPPED: gone (agent).
    BACKOFF: died; is started again at a known time (agent).
    FAILED: is not started again until an operator asks (agent).
    UNKNOWN: its node is silent; nothing is known (control plane). Leaves to whatever the node reports next.
    """

    ASSIGNED = "assigned"
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"
    STOPPED = "stopped"
    BACKOFF = "backoff"
    FAILED = "failed"
    UNKNOWN = "unknown"


_LIVE = frozenset(
    {
        WorkerPhase.STARTING,
        WorkerPhase.LOADING,
        WorkerPhase.READY,
        WorkerPhase.DRAINING,
        WorkerPhase.STOPPING,
    }
)

#: Phases in which a process may hold its devices.
HOLDS_DEVICES = _LIVE | {WorkerPhase.ASSIGNED, WorkerPhase.BACKOFF, WorkerPhase.UNKNOWN}

#: Phases that are on the way to READY by themselves.
STARTING_UP = frozenset({WorkerPhase.ASSIGNED, WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.BACKOFF})

#: Phases that end an incarnation.
TERMINAL = frozenset({WorkerPhase.STOPPED, WorkerPhase.FAILED})

_DIED = frozenset({WorkerPhase.BACKOFF, WorkerPhase.FAILED, WorkerPhase.STOPPED})

#: Legal moves of `WorkerPhase` as one process walks through them, seen at the pace of its agent.
WORKER_MOVES: dict[WorkerPhase, frozenset[WorkerPhase]] = {
    WorkerPhase.ASSIGNED: frozenset({WorkerPhase.STARTING, WorkerPhase.STOPPING}) | _DIED,
    WorkerPhase.STARTING: frozenset({WorkerPhase.LOADING, WorkerPhase.READY, WorkerPhase.STOPPING}) | _DIED,
    WorkerPhase.LOADING: frozenset({WorkerPhase.READY, WorkerPhase.STOPPING}) | _DIED,
    WorkerPhase.READY: frozenset({WorkerPhase.LOADING, WorkerPhase.DRAINING, WorkerPhase.STOPPING}) | _DIED,
    WorkerPhase.DRAINING: frozenset({WorkerPhase.READY, WorkerPhase.STOPPING}) | _DIED,
    WorkerPhase.STOPPING: frozenset({WorkerPhase.STOPPED, WorkerPhase.FAILED}),
    WorkerPhase.STOPPED: frozenset({WorkerPhase.STARTING}),
    WorkerPhase.BACKOFF: frozenset({WorkerPhase.STARTING, WorkerPhase.FAILED, WorkerPhase.STOPPED}),
    WorkerPhase.FAILED: frozenset({WorkerPhase.STARTING, WorkerPhase.STOPPED}),
    WorkerPhase.UNKNOWN: frozenset(WorkerPhase) - {WorkerPhase.UNKNOWN, WorkerPhase.ASSIGNED},
}


def may_move(old: WorkerPhase, new: WorkerPhase) -> bool:
    """Whether one worker may go from `old` to `new` in one step (staying is always legal)."""
    return old == new or new in WORKER_MOVES[old]


class NodePhase(StrEnum):
    """What a node is seen to be.

        JOINING ──(first report)──> READY <──(report)── LOST
                                      └──(silence)───────^

    JOINING: the join token was used, no report yet (join service). READY: reports arrive (report service).
    LOST: silent past the limit, by arrival time (sweep).
    """

    JOINING = "joining"
    READY = "ready"
    LOST = "lost"


class DeviceKind(StrEnum):
    """GPU: seen through NVML. CPU: a slot of processor cores and memory on a node without a GPU."""

    GPU = "gpu"
    CPU = "cpu"


class OperationKind(StrEnum):
    """What an operator asked for."""

    DEPLOY = "deploy"
    RESIZE = "resize"
    DELETE = "delete"


class OperationState(StrEnum):
    """Where an operator's intent stands. Written by the operations services.

        RUNNING ──> SUCCEEDED | FAILED | SUPERSEDED

    SUPERSEDED: a later operation on the same target took over before this one was done.
    """

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SUPERSEDED = "superseded"


class FinishReason(StrEnum):
    """Why an answer ended. STOP: end-of-sequence or a stop string. LENGTH: the token limit."""

    STOP = "stop"
    LENGTH = "length"


class PrefillPath(StrEnum):
    """Where the prompt was read: on a prefill worker (HANDOFF) or on the worker that writes the answer (LOCAL)."""

    HANDOFF = "handoff"
    LOCAL = "local"
