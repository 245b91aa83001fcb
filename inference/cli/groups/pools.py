"""`tandem pools`: how many workers each stage has, and where they may go."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import UNSET

from inference.cli import arguments, find
from inference.cli.client import segment
from inference.cli.command import Cli, operates, reads, writes
from inference.cli.errors import BadValue
from inference.cli.group import group
from inference.cli.groups.worker_table import WORKER_COLUMNS
from inference.cli.output import Column
from inference.contracts.answers import PoolAnswer
from inference.contracts.bodies.pools import PoolBody
from inference.contracts.states import PlacementStrategy, Role
from inference.contracts.views.pools import PoolView

app = group("Pools: the workers of one stage of one deployment.")

POOL_COLUMNS = (
    Column("POOL", find.pool_name),
    Column("READY", lambda pool: f"{pool.ready}/{pool.replicas}", right=True),
    Column("MIN", lambda pool: pool.min_replicas, right=True),
    Column("MAX", lambda pool: pool.max_replicas, right=True),
    Column("DEVICES EACH", lambda pool: pool.tensor_parallel, right=True),
    Column("STRATEGY", lambda pool: pool.strategy),
    Column("LABELS", lambda pool: pool.labels),
    Column("REFUSED", lambda pool: len(pool.refusals), right=True),
)


def _size(role: Role) -> object:
    return typer.Option(f"--{role}", min=0, show_default=False, help=f"Workers of its {role} pool.")


@reads(app, "list", examples=["pools list"])
def list_(cli: Cli) -> None:
    """Every pool. With --json: the deployments that they belong to."""
    found = find.deployments(cli.client)
    pools = [pool for each in found.view for pool in each.pools]
    cli.out.rows(pools, found.raw, POOL_COLUMNS, find.pool_name, "Nothing is deployed.")


@reads(app, "show", examples=["pools show chat/decode"])
def show(cli: Cli, name: arguments.Pool) -> None:
    """One pool with its workers, and why some could not be placed."""
    found = cli.client.get(f"/pools/{find.pool(cli.client, name).id}", PoolView)
    pool = found.view
    fields = [
        ("Pool", find.pool_name(pool)),
        ("Ready", f"{pool.ready} of {pool.replicas}"),
        ("Limits", f"{pool.min_replicas} to {pool.max_replicas}"),
        ("Devices of each", pool.tensor_parallel),
        ("Strategy", pool.strategy),
        ("Labels", pool.labels),
        ("Generation", pool.generation),
    ]
    cli.out.one(found.raw, fields, find.pool_name(pool))
    if cli.out.for_people:
        if pool.workers:
            cli.out.heading("Workers")
            cli.out.table([(pool.deployment, worker) for worker in pool.workers], WORKER_COLUMNS)
        for refusal in pool.refusals:
            cli.out.text(refusal)


@operates(
    app,
    "resize",
    examples=[
        "pools resize chat --decode 3 --wait",
        "pools resize chat --prefill 0 --dry-run",
        "pools resize chat --decode 5 --reason 'evening peak' --queue --wait --timeout 10m",
    ],
)
def resize(
    cli: Cli,
    name: arguments.Deployment,
    prefill: Annotated[int | None, _size(Role.PREFILL)] = None,
    decode: Annotated[int | None, _size(Role.DECODE)] = None,
    unified: Annotated[int | None, _size(Role.UNIFIED)] = None,
) -> None:
    """Another number of workers. A worker that leaves finishes its answers first."""
    sizes = {Role.PREFILL: prefill, Role.DECODE: decode, Role.UNIFIED: unified}
    asked = [(role, size) for role, size in sizes.items() if size is not None]
    if not asked:
        raise BadValue("Say which pool gets how many workers: --prefill, --decode or --unified.")
    if len(asked) > 1:
        raise BadValue(
            "One pool at a time. To trade workers between both in one go: "
            f"tandem deployments rebalance {name} --prefill ... --decode ..."
        )
    ((role, size),) = asked
    pool = find.pool_of(cli.client, name, role)
    body = PoolBody(generation=pool.generation, replicas=size, reason=cli.asked.reason)
    cli.operate("PATCH", f"/pools/{segment(pool.id)}", body, PoolAnswer, lambda answer: answer.operation)


@writes(
    app, "change", reason=True, examples=["pools change chat/decode --max 8", "pools change chat/decode --label h100"]
)
def change(
    cli: Cli,
    name: arguments.Pool,
    least: Annotated[int | None, typer.Option("--min", min=0, show_default=False, help="Fewest workers.")] = None,
    most: Annotated[int | None, typer.Option("--max", min=0, show_default=False, help="Most workers.")] = None,
    strategy: Annotated[PlacementStrategy | None, typer.Option("--strategy", show_default=False)] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", show_default=False, help="Devices must have it; replaces all.")
    ] = None,
    no_labels: Annotated[bool, typer.Option("--no-labels", help="Any device will do.")] = False,
) -> None:
    """Its limits, and where workers that are yet to start may go."""
    pool = find.pool(cli.client, name)
    body = PoolBody(
        generation=pool.generation,
        min_replicas=UNSET if least is None else least,
        max_replicas=UNSET if most is None else most,
        strategy=UNSET if strategy is None else strategy.value,
        labels=() if no_labels else UNSET if not label else tuple(label),
        reason=cli.asked.reason,
    )
    if body == PoolBody(generation=pool.generation, reason=cli.asked.reason):
        raise BadValue("Say what is to change: --min, --max, --strategy, --label or --no-labels.")
    answer = cli.change("PATCH", f"/pools/{pool.id}", body, PoolAnswer)
    changed = answer.view.pool
    cli.out.done(
        answer.raw,
        f"{find.pool_name(changed)}: {changed.min_replicas} to {changed.max_replicas} workers, {changed.strategy}, "
        f"labels {', '.join(changed.labels) or 'any'}.",
        find.pool_name(changed),
    )
