"""`tandem workers`: single processes."""

from __future__ import annotations

from typing import Annotated

import typer

from inference.cli import arguments, completion, find
from inference.cli.command import Cli, operates, reads
from inference.cli.durations import moment
from inference.cli.group import group
from inference.cli.groups.worker_table import WORKER_COLUMNS, phase
from inference.cli.sizes import count, share, size
from inference.contracts.answers import OperationAnswer
from inference.contracts.bodies.operations import ReasonBody
from inference.contracts.reports import LogReply
from inference.contracts.states import LogRun

app = group("Workers: processes that serve, each with its devices.")


@reads(app, "list", examples=["workers list", "workers list --deployment chat", "workers list --node node-2"])
def list_(
    cli: Cli,
    deployment: Annotated[
        str | None, typer.Option("--deployment", show_default=False, autocompletion=completion.deployments)
    ] = None,
    node: Annotated[str | None, typer.Option("--node", show_default=False, autocompletion=completion.nodes)] = None,
) -> None:
    """Every worker and what it does. With --json: the deployments that they belong to."""
    found = find.deployments(cli.client)
    workers = [
        (each.name, worker)
        for each in found.view
        if deployment in (None, each.name)
        for pool in each.pools
        for worker in pool.workers
        if node in (None, worker.node_name, worker.node_id)
    ]
    cli.out.rows(workers, found.raw, WORKER_COLUMNS, find.worker_name, "There are no workers.")


@reads(app, "show", examples=["workers show chat/decode-1"])
def show(cli: Cli, name: arguments.Worker) -> None:
    """One worker, with the end of its log."""
    worker = find.worker(cli.client, name)
    fields = [
        ("Worker", worker.name),
        ("Id", worker.id),
        ("Role", worker.role),
        ("Wanted", worker.desired),
        ("Phase", f"{phase(worker)}, since {moment(worker.phase_since)}"),
        ("Reason", worker.reason),
        ("Starts", worker.attempts),
        ("Node", worker.node_name),
        ("Devices", worker.device_ids),
        ("Revision", worker.revision),
        ("Running", worker.running),
        ("Waiting", worker.waiting),
        ("Waiting tokens", worker.waiting_tokens),
        ("Reserved for", None if worker.tickets is None else count(worker.tickets, "request")),
        ("KV blocks", share(worker.kv_blocks_used, worker.kv_blocks_total)),
        ("Hand-offs", worker.handoffs),
        ("KV received", size(worker.kv_bytes_received)),
        ("KV sent", size(worker.kv_bytes_sent)),
        ("Fingerprint", worker.fingerprint),
    ]
    cli.out.one(worker, fields, worker.name)
    if cli.out.for_people and worker.log_tail:
        cli.out.heading("Log, its end")
        cli.out.text("\n".join(worker.log_tail))


@operates(app, "flip", examples=["workers flip chat/prefill-2 --wait"])
def flip(cli: Cli, name: arguments.Worker) -> None:
    """To the other role of its deployment; both pools' sizes follow."""
    _operate(cli, name, "flip")


@operates(app, "restart", examples=["workers restart chat/decode-1 --wait"])
def restart(cli: Cli, name: arguments.Worker) -> None:
    """Clears a failure or a back-off at once; a worker that runs first finishes what it has."""
    _operate(cli, name, "restart")


@reads(app, "logs", examples=["workers logs chat/decode-1 -n 50", "workers logs chat/decode-1 --previous"])
def logs(
    cli: Cli,
    name: arguments.Worker,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=5000, help="The last so many.")] = 200,
    previous: Annotated[bool, typer.Option("--previous", "-p", help="Of the process before this one.")] = False,
) -> None:
    """Asked of its node while you wait."""
    worker = find.worker(cli.client, name)
    run = LogRun.PREVIOUS if previous else LogRun.CURRENT
    found = cli.client.get(f"/workers/{worker.id}/logs", LogReply, run=run, lines=lines)
    cli.out.done(found.raw, "\n".join(found.view.lines), "\n".join(found.view.lines))


def _operate(cli: Cli, name: str, verb: str) -> None:
    worker = find.worker(cli.client, name)
    body = ReasonBody(reason=cli.asked.reason)
    cli.operate("POST", f"/workers/{worker.id}/{verb}", body, OperationAnswer, lambda answer: answer.operation)
