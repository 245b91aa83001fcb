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


class KVTransport(StrEnum):
    """How KV travels from a prefill worker to a decode worker.

    SHARED_MEMORY: decode reads it where prefill's engine wrote it, on the same machine. TCP: over the network. NIXL:
    by NVIDIA's transfer library, over what it finds between the two.
    """

    SHARED_MEMORY = "shared_memory"
    TCP = "tcp"
    NIXL = "nixl"


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
                        ^  │         │        ^ │           │            ^
                        │  │         │        │ └─SWITCHING─┤            │
                        │  └────┬────┴────────┴─────────────┘            │
                        │       v (process died)                         │ (desired = stop, from any phase)
                        └── BACKOFF ──> FAILED                           │
                                        (attempts used up, or an error that a restart cannot mend)
        STOPPING ──> STARTING   (another role was wanted and the running process could not take it)

    ASSIGNED: the row exists, its node has not reported it yet (control plane).
    STARTING: the process is launched and does not answer yet (agent).
    LOADING: the process answers and loads weights (agent).
    READY: weights are loaded and a token was generated (agent).
    DRAINING: takes no new requests; finishes what it has (agent).
    SWITCHING: has finished, changes its role with its weights loaded, and makes a token to prove it (agent).
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
    SWITCHING = "switching"
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
        WorkerPhase.SWITCHING,
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
    WorkerPhase.READY: frozenset(
        {WorkerPhase.LOADING, WorkerPhase.DRAINING, WorkerPhase.SWITCHING, WorkerPhase.STOPPING}
    )
    | _DIED,
    WorkerPhase.DRAINING: frozenset({WorkerPhase.READY, WorkerPhase.SWITCHING, WorkerPhase.STOPPING}) | _DIED,
    WorkerPhase.SWITCHING: frozenset({WorkerPhase.READY, WorkerPhase.STOPPING}) | _DIED,
    WorkerPhase.STOPPING: frozenset({WorkerPhase.STARTING, WorkerPhase.STOPPED, WorkerPhase.FAILED}),
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


class NodeDesired(StrEnum):
    """What the control plane wants of a node. Written by fleet services only.

        ACTIVE <──> CORDONED <──> DRAINING ──> RETIRED
           ^──────────────────────────┘            (from any state; final)

    ACTIVE: may be given workers. CORDONED: keeps what it runs and is given nothing new.
    DRAINING: its workers are moved elsewhere or drained; when none is left it is as good as cordoned.
    RETIRED: no longer ours. Its workers count as gone, its credentials are void, its devices are never given out again.
    """

    ACTIVE = "active"
    CORDONED = "cordoned"
    DRAINING = "draining"
    RETIRED = "retired"


class DeviceKind(StrEnum):
    """GPU: seen through NVML. CPU: a slot of processor cores and memory on a node without a GPU."""

    GPU = "gpu"
    CPU = "cpu"


class PlacementStrategy(StrEnum):
    """Where the workers of a pool go. SPREAD: over as many nodes as there are, so that losing one costs little.
    PACK: onto as few as will do, so that whole nodes stay free for workers that need many devices."""

    SPREAD = "spread"
    PACK = "pack"


class OperationKind(StrEnum):
    """What an operator asked for."""

    DEPLOY = "deploy"
    RESIZE = "resize"
    REBALANCE = "rebalance"
    FLIP = "flip"
    ROLL_OUT = "roll_out"
    ROLL_BACK = "roll_back"
    RESTART_WORKER = "restart_worker"
    DELETE = "delete"
    DRAIN_NODE = "drain_node"
    CORDON_NODE = "cordon_node"
    UNCORDON_NODE = "uncordon_node"
    RETIRE_NODE = "retire_node"
    MEASURE_NETWORK = "measure_network"
    FETCH_WEIGHTS = "fetch_weights"


class OperationState(StrEnum):
    """Where an operator's intent stands. Written by the operations services.

        QUEUED ──> RUNNING ──> SUCCEEDED | FAILED | SUPERSEDED | CANCELLED
          └──> CANCELLED | FAILED | SUPERSEDED

    QUEUED: waits, because its caller asked for that, until the operations it conflicts with have ended. FAILED from
    there: its beginning was refused when its turn came.
    FAILED: also a roll-out that was rolled back by itself. SUPERSEDED: a later operation took over.
    CANCELLED: a person took it back; what was wanted before is wanted again.
    """

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"


#: States of an operation that may still do something.
OPERATION_OPEN = frozenset({OperationState.QUEUED, OperationState.RUNNING})


class StepState(StrEnum):
    """One step of an operation.

    RUNNING ──> DONE | FAILED | SKIPPED   (SKIPPED: it was not needed any more, or its operation ended first)
    """

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class UserRole(StrEnum):
    """What a person or a management token may do. Each may do all that the ones before it may.

    VIEWER: look at everything but secrets. OPERATOR: change what runs, and have tokens of one's own. ADMIN: also
    people, everybody's tokens, and the audit.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class PriorityClass(StrEnum):
    """Whose requests go first while there is not room for all: those of a class before all of the classes below it."""

    HIGH = "high"
    STANDARD = "standard"
    LOW = "low"


class Subject(StrEnum):
    """What failed logins are counted by."""

    NAME = "name"
    ADDRESS = "address"


class PrincipalKind(StrEnum):
    """USER: a person with a session. TOKEN: a program with a management token. SYSTEM: Tandem itself.
    ANONYMOUS: whoever calls what needs no login (a login itself, a machine that joins)."""

    USER = "user"
    TOKEN = "token"  # noqa: S105
    SYSTEM = "system"
    ANONYMOUS = "anonymous"


class FetchState(StrEnum):
    """Weights of one model on one node, as the node sees them.

    WANTED ──> FETCHING ──> PRESENT        ABSENT: not there and not wanted
                  └──> FAILED ──> FETCHING (asked again)
    """

    ABSENT = "absent"
    WANTED = "wanted"
    FETCHING = "fetching"
    PRESENT = "present"
    FAILED = "failed"


class ModelSource(StrEnum):
    """Where a model's files come from. DIRECTORY: on every node that serves it. HUB: an id of the model hub. WEB: an
    http(s) address of an archive or a directory, as object stores have."""

    DIRECTORY = "directory"
    HUB = "hub"
    WEB = "web"


class LogRun(StrEnum):
    """Which run of a worker's process a log is of: the one now (or the last one), or the one before it."""

    CURRENT = "current"
    PREVIOUS = "previous"


class FinishReason(StrEnum):
    """Why an answer ended. STOP: end-of-sequence or a stop string. LENGTH: the token limit. TOOL_CALLS: STOP, after
    calls of tools, which routers find in the text."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"


class HandoffFailure(StrEnum):
    """What becomes of a request whose KV did not reach the decode worker whole.

    FAIL: it fails. RETRY_PREFILL: another prefill worker, or another pair, reads the prompt. RECOMPUTE_ON_DECODE: the
    decode worker reads it.
    """

    FAIL = "fail"
    RETRY_PREFILL = "retry_prefill"
    RECOMPUTE_ON_DECODE = "recompute_on_decode"


class PrefillPath(StrEnum):
    """Where the prompt was read: on a prefill worker (HANDOFF) or on the worker that writes the answer (LOCAL)."""

    HANDOFF = "handoff"
    LOCAL = "local"
