"""Names of queues, tasks, keys, streams and headers, each written once."""

from __future__ import annotations

# Celery
CONTROL_QUEUE = "control"
TASK_APPLY_NODE_SPEC = "agent.apply_node_spec"
TASK_SEND_LOG = "agent.send_log"
TASK_RECORD_NODE_REPORT = "control.record_node_report"
TASK_RECONCILE_POOL = "control.reconcile_pool"
TASK_SWEEP = "control.sweep"


def node_queue(node_id: str) -> str:
    """The queue that only the agent of `node_id` consumes."""
    return f"node.{node_id}"


# Redis keys: the last published value, and the channel that says "look again"
ROUTING_TABLE_KEY = "tandem:routing"
ROUTING_TABLE_CHANNEL = "tandem:routing:changed"
KEY_TABLE_KEY = "tandem:keys"
#: Hash: key id -> unix second of its last use, written by routers every few seconds.
KEY_USE_KEY = "tandem:keys:used"


def log_reply_key(request_id: str) -> str:
    """The list under which an agent puts the log lines that `request_id` asked for; it expires by itself."""
    return f"tandem:log:{request_id}"


# Redis streams, all capped
WINDOW_STREAM = "tandem:windows"
WINDOW_STREAM_MAXLEN = 60_000
CONSOLE_STREAM = "tandem:console"
CONSOLE_STREAM_MAXLEN = 10_000
#: The telemetry frames once more, by themselves: however much else happens, the last ten minutes are there.
FRAME_STREAM = "tandem:frames"
FRAME_STREAM_MAXLEN = 600
STREAM_FIELD = "m"

# HTTP headers
REQUEST_ID_HEADER = "X-Request-Id"
TIMINGS_HEADER = "X-Tandem-Timings"
#: Milliseconds within which a client wants the first token; what can't be in time is refused at once.
TTFT_DEADLINE_HEADER = "X-Tandem-Ttft-Deadline-Ms"

# Worker HTTP paths (router and agent call these)
WORKER_RESERVE = "/worker/reserve"
WORKER_PREFILL = "/worker/prefill"
WORKER_GENERATE = "/worker/generate"
WORKER_TOKENIZE = "/worker/tokenize"
WORKER_DETOKENIZE = "/worker/detokenize"
WORKER_EMBED = "/worker/embed"
WORKER_TICKETS = "/worker/tickets"
WORKER_STATUS = "/worker/status"
WORKER_DRAIN = "/worker/drain"
WORKER_UNDRAIN = "/worker/undrain"
WORKER_ROLE = "/worker/role"
WORKER_PREFLIGHT = "/worker/preflight"
WORKER_WINDOWS = "/worker/windows"
HEALTH_LIVE = "/health/live"
HEALTH_READY = "/health/ready"
METRICS = "/metrics"
