"""Workers in a table; each comes with the name of its deployment."""

from __future__ import annotations

from inference.cli import find
from inference.cli.output import Column
from inference.cli.sizes import share
from inference.contracts.views.pools import WorkerView


def phase(worker: WorkerView) -> str:
    """With what it leads to, where that is known."""
    if worker.next_start_s is not None:
        return f"{worker.phase}, next start in {worker.next_start_s:.0f} s"
    if worker.drain_left_s is not None:
        return f"{worker.phase}, {worker.drain_left_s:.0f} s left"
    if worker.observed_role is not None and worker.observed_role != worker.role:
        return f"{worker.phase}, still {worker.observed_role}"
    return worker.phase


WORKER_COLUMNS = (
    Column("WORKER", find.worker_name),
    Column("ROLE", lambda each: each[1].role),
    Column("PHASE", lambda each: phase(each[1])),
    Column("NODE", lambda each: each[1].node_name),
    Column("DEVICES", lambda each: each[1].device_ids),
    Column("RUNNING", lambda each: each[1].running, right=True),
    Column("WAITING", lambda each: each[1].waiting, right=True),
    Column("KV", lambda each: share(each[1].kv_blocks_used, each[1].kv_blocks_total), right=True),
    Column("REVISION", lambda each: each[1].revision, right=True),
    Column("REASON", lambda each: each[1].reason),
)
