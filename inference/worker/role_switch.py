"""Whether a worker may change its role, and what its spec is afterwards."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import WorkerLoad
from inference.contracts.specs import WorkerSpec
from inference.contracts.worker import RoleOrder
from inference.worker.state import WorkerState


def check_switch(state: WorkerState, load: Callable[[], WorkerLoad]) -> None:
    """
    Raises:
        TandemError: NOT_READY when the worker does not serve, NOT_IDLE when it takes new requests or has not finished
            what it has.
    """
    if state.failure is not None or not state.ready:
        raise TandemError(ErrorCode.NOT_READY, state.failure or "the worker is still loading its model")
    if not state.draining:
        raise TandemError(ErrorCode.NOT_IDLE, "the worker takes new requests; drain it first")
    held = load()
    if held.running or held.waiting or held.tickets or held.handoffs or held.kv_blocks_used:
        raise TandemError(
            ErrorCode.NOT_IDLE,
            f"the worker still holds {held.running} running and {held.waiting} waiting requests, "
            f"{held.tickets} tickets, {held.handoffs} hand-offs and {held.kv_blocks_used} KV blocks",
        )


def switched(spec: WorkerSpec, order: RoleOrder) -> WorkerSpec:
    return msgspec.structs.replace(spec, role=order.role, pool_id=order.pool_id or spec.pool_id)
