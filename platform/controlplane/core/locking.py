"""How rows are locked, and in which order, so that two who need the same rows never wait for each other.

Whoever locks more than one kind of row takes them in this order, skipping what it does not need:

    Watch -> Model -> Deployment (one) -> PlanningTurn -> Node (all at once, by name) -> Operation, targets, steps
          -> Worker, Device, NodeWeights, LinkMeasurement -> RoutingTableVersion

- A new deployment's row is nobody else's yet, so its model may be locked before or after it.
- Operations of a deployment, its pools and workers are begun, advanced and ended by others than the deadline under the
  deployment's lock, those of nodes under the node's. So one that begins may lock nodes after its own row, and a look
  that has planned may write into those of its deployment at its end.
- All nodes that one transaction needs are locked by one statement. What comes to need others begins another one
  (`transaction.on_commit`), or does that part first, in a transaction of its own.
- What reports write of workers, devices, weights and links is written under the lock of their node.
- The last admin, tokens and keys have an order of their own (`access.users`) and meet none of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from django.db.models import Manager, Model, QuerySet

M = TypeVar("M", bound=Model)


def locked(rows: Manager[M] | QuerySet[M], *, of: Sequence[str] = ()) -> QuerySet[M]:
    """`rows`, locked until the transaction ends.

    Not against rows that merely refer to them: PostgreSQL checks foreign keys by a lock of its own on the row that is
    referred to, as late as at commit, which no order of ours could take into account. Keys are never changed.
    """
    return rows.select_for_update(of=tuple(of), no_key=True)
