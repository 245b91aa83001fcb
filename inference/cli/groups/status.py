"""`tandem status`: everything that matters, on one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import typer

from inference.cli import find
from inference.cli.client import Client
from inference.cli.command import Cli, reads
from inference.cli.groups.deployments import pools_in_short, revision_in_short
from inference.cli.groups.device_table import condition
from inference.cli.output import Column
from inference.cli.sizes import count
from inference.contracts.states import NodeDesired, NodePhase, OperationState
from inference.contracts.views.fleet import NodeView
from inference.contracts.views.operations import OperationView
from inference.contracts.views.pools import DeploymentView

_OPERATIONS = 10

_DEPLOYMENTS = (
    Column("DEPLOYMENT", lambda each: each.name),
    Column("MODEL", lambda each: each.model),
    Column("STATUS", lambda each: each.status),
    Column("READY", pools_in_short),
    Column("REVISION", revision_in_short, right=True),
    Column("RUNNING", lambda each: _sum(worker.running for pool in each.pools for worker in pool.workers), right=True),
    Column("WAITING", lambda each: _sum(worker.waiting for pool in each.pools for worker in pool.workers), right=True),
)
_OPEN = (
    Column("OPERATION", lambda each: each.id[:8]),
    Column("STATE", lambda each: each.state),
    Column("PROGRESS", lambda each: f"{each.progress:.0%}", right=True),
    Column("WHAT", lambda each: each.title),
    Column("BY", lambda each: each.requested_by),
)


def register(app: typer.Typer) -> None:
    @reads(app, "status", examples=["status", "status --json"])
    def status(cli: Cli) -> None:
        """Deployments, nodes, devices, operations under way, and what an operator should see to."""
        deployments, nodes = find.deployments(cli.client), find.nodes(cli.client)
        operations, raw_operations = _under_way(cli.client)
        if not cli.out.for_people:
            raw = {"deployments": deployments.raw["items"], "nodes": nodes.raw["items"], "operations": raw_operations}
            cli.out.done(raw, "", "\n".join(trouble(deployments.view, nodes.view)))
            return
        if deployments.view:
            cli.out.table(deployments.view, _DEPLOYMENTS)
        else:
            cli.out.text("Nothing is deployed.")
        cli.out.heading("Fleet")
        cli.out.text(fleet_in_short(nodes.view))
        if operations:
            cli.out.heading("Under way")
            cli.out.table(operations, _OPEN)
        if found := trouble(deployments.view, nodes.view):
            cli.out.heading("To see to")
            for line in found:
                cli.out.text(f"! {line}")


def fleet_in_short(nodes: Sequence[NodeView]) -> str:
    ours = [node for node in nodes if node.desired != NodeDesired.RETIRED]
    phases = Counter(str(node.phase) for node in ours)
    wanted = Counter(str(node.desired) for node in ours if node.desired != NodeDesired.ACTIVE)
    parts = [f"{count} {phase}" for phase, count in sorted((phases + wanted).items())]
    devices = [device for node in ours for device in node.devices if not device.missing]
    held = sum(device.worker_id is not None for device in devices)
    unusable = sum(device.worker_id is None and bool(device.fault or device.maintenance) for device in devices)
    return (
        f"{count(len(ours), 'node')} ({', '.join(parts) or 'none'}); "
        f"{count(len(devices), 'device')}: {held} in use, {len(devices) - held - unusable} free, {unusable} out of use"
    )


def trouble(deployments: Sequence[DeploymentView], nodes: Sequence[NodeView]) -> list[str]:
    """What an operator should see to, one sentence each."""
    found = []
    for deployment in deployments:
        for pool in deployment.pools:
            found += [f"{find.pool_name(pool)}: {refusal}" for refusal in pool.refusals]
            found += [
                f"{deployment.name}/{worker.name} is {worker.phase}{f': {worker.reason}' if worker.reason else ''}"
                for worker in pool.workers
                if worker.phase in ("failed", "backoff", "unknown")
            ]
    for node in nodes:
        if node.desired == NodeDesired.RETIRED:
            continue
        if node.phase == NodePhase.LOST:
            found.append(f"{node.name} does not report")
        found += [f"{node.name}: {warning}" for warning in node.warnings]
        found += [f"{node.name}/{device.device_id}: {condition(device)}" for device in node.devices if device.fault]
    return found


def _under_way(client: Client) -> tuple[list[OperationView], list[object]]:
    views: list[OperationView] = []
    raw: list[object] = []
    for state in (OperationState.RUNNING, OperationState.QUEUED):
        found = client.items("/operations", OperationView, at_most=_OPERATIONS, state=state)
        views += found.view
        raw += found.raw["items"]
    return views, raw


def _sum(counts: Iterable[int | None]) -> int | None:
    """Of those that are known; None where none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
