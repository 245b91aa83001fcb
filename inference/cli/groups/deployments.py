"""`tandem deployments`: what is served."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import UNSET

from inference.cli import arguments, completion, find
from inference.cli.client import segment
from inference.cli.command import Cli, operates, reads, writes
from inference.cli.durations import moment
from inference.cli.errors import BadValue
from inference.cli.group import group
from inference.cli.groups.pools import POOL_COLUMNS
from inference.cli.output import Column
from inference.cli.settings import Setting, engine_settings, routing_policy
from inference.contracts.answers import DeploymentAnswer, OperationAnswer
from inference.contracts.bodies.operations import ReasonBody
from inference.contracts.bodies.pools import DeploymentBody, DeploymentChangeBody, RebalanceBody
from inference.contracts.states import PlacementStrategy, Role
from inference.contracts.views.operations import OperationView
from inference.contracts.views.pools import DeploymentView, RevisionView

app = group("Deployments: models that are served, each by its pools of workers.")

Prefill = Annotated[int, typer.Option("--prefill", min=0, help="Workers that read prompts.")]
Decode = Annotated[int, typer.Option("--decode", min=0, help="Workers that write answers.")]
LocalPrefill = Annotated[
    int | None,
    typer.Option("--local-prefill-tokens", min=0, show_default=False, help="Prompts up to this are read by decode."),
]
Route = Annotated[
    list[str] | None,
    typer.Option("--route", metavar="NAME=VALUE", show_default=False, help="How requests find their workers."),
]
Ttft = Annotated[float | None, typer.Option("--slo-ttft", min=0, show_default=False, help="Promised TTFT, seconds.")]
Tpot = Annotated[float | None, typer.Option("--slo-tpot", min=0, show_default=False, help="Promised TPOT, seconds.")]

COLUMNS = (
    Column("NAME", lambda each: each.name),
    Column("MODEL", lambda each: each.model),
    Column("STATUS", lambda each: each.status),
    Column("READY", lambda each: pools_in_short(each)),
    Column("REVISION", lambda each: revision_in_short(each), right=True),
    Column("CREATED", lambda each: moment(each.created_at)),
)


@reads(app, "list", examples=["deployments list", "deployments list --json | jq '.items[].name'"])
def list_(cli: Cli) -> None:
    """Every deployment, and how many of its workers are ready."""
    found = find.deployments(cli.client)
    cli.out.rows(found.view, found.raw, COLUMNS, lambda each: each.name, "Nothing is deployed.")


@reads(app, "show", examples=["deployments show chat"])
def show(cli: Cli, name: arguments.Deployment) -> None:
    """One deployment with its pools, roll-out and promises."""
    found = find.deployment(cli.client, name)
    view = found.view
    fields: list[tuple[str, object]] = [
        ("Name", view.name),
        ("Model", view.model),
        ("Status", view.status),
        ("Revision", revision_in_short(view)),
        ("Short prompts", f"up to {view.local_prefill_tokens} uncached tokens are read by decode workers"),
        ("Promised", _promised(view)),
        ("Failed hand-offs", view.routing.handoff_failure.value),
        ("Flips", "with weights loaded" if view.can_flip else "by a warm restart"),
        ("Created", moment(view.created_at)),
    ]
    if view.rollout is not None:
        fields.append(("Roll-out", _rollout(view)))
    cli.out.one(found.raw, fields, view.name)
    if cli.out.for_people:
        cli.out.heading("Pools")
        cli.out.table(view.pools, POOL_COLUMNS)
        for pool in view.pools:
            for refusal in pool.refusals:
                cli.out.text(f"{pool.role}: {refusal}")


@operates(
    app,
    "create",
    queue=False,
    examples=[
        "deployments create chat --model smollm2-135m --prefill 1 --decode 2 --wait",
        "deployments create big --model llama-70b --decode 2 --prefill 2 --tensor-parallel 4 --label h100 --dry-run",
    ],
)
def create(
    cli: Cli,
    name: Annotated[str, typer.Argument(help="What clients call as model.", metavar="NAME")],
    model: Annotated[str, typer.Option("--model", help="Of the catalogue.", autocompletion=completion.models)],
    prefill: Prefill = 0,
    decode: Decode = 0,
    unified: Annotated[int, typer.Option("--unified", min=0, help="Workers that do both, alone.")] = 0,
    model_revision: Annotated[str, typer.Option("--model-revision", help="Of a hub id.", show_default=False)] = "",
    tensor_parallel: Annotated[int, typer.Option("--tensor-parallel", min=1, help="Devices of each worker.")] = 1,
    strategy: Annotated[PlacementStrategy, typer.Option("--strategy", help="Where workers go.")] = (
        PlacementStrategy.SPREAD
    ),
    label: Annotated[
        list[str] | None, typer.Option("--label", help="Devices must have it.", show_default=False)
    ] = None,
    local_prefill_tokens: LocalPrefill = None,
    slo_ttft: Ttft = None,
    slo_tpot: Tpot = None,
    setting: Setting = None,
    route: Route = None,
) -> None:
    """Serve a model under a name."""
    body = DeploymentBody(
        name=name,
        model=model,
        model_revision=model_revision,
        prefill=prefill,
        decode=decode,
        unified=unified,
        local_prefill_tokens=local_prefill_tokens,
        settings=engine_settings(setting or []),
        tensor_parallel=tensor_parallel,
        strategy=strategy,
        labels=tuple(label or ()),
        slo_ttft_s=slo_ttft,
        slo_tpot_s=slo_tpot,
        routing=routing_policy(route or []),
        reason=cli.asked.reason,
    )
    cli.operate("POST", "/deployments", body, DeploymentAnswer, lambda answer: answer.operation)


@writes(app, "change", reason=True, examples=["deployments change chat --slo-ttft 0.5 --slo-tpot 0.03"])
def change(
    cli: Cli,
    name: arguments.Deployment,
    local_prefill_tokens: LocalPrefill = None,
    slo_ttft: Ttft = None,
    slo_tpot: Tpot = None,
    no_slo: Annotated[bool, typer.Option("--no-slo", help="Promise nothing.")] = False,
    route: Route = None,
) -> None:
    """Promises, which prompts are short, how requests find their workers. Takes effect at once."""
    nothing = None if no_slo else UNSET
    routing = routing_policy(route, find.deployment(cli.client, name).view.routing) if route else None
    body = DeploymentChangeBody(
        local_prefill_tokens=local_prefill_tokens,
        slo_ttft_s=nothing if slo_ttft is None else slo_ttft,
        slo_tpot_s=nothing if slo_tpot is None else slo_tpot,
        routing=routing,
        reason=cli.asked.reason,
    )
    if body == DeploymentChangeBody(reason=cli.asked.reason):
        raise BadValue("Say what is to change: --local-prefill-tokens, --slo-ttft, --slo-tpot, --no-slo or --route.")
    answer = cli.change("PATCH", f"/deployments/{segment(name)}", body, DeploymentView)
    cli.out.done(answer.raw, f"{name}: promises {_promised(answer.view)}.", name)


@operates(app, "delete", queue=False, final=True, examples=["deployments delete chat --reason 'replaced' --wait"])
def delete(cli: Cli, name: arguments.Deployment) -> None:
    """Its workers finish what they have; then it is gone."""
    cli.confirm(f"Delete {name}?")
    cli.operate(
        "DELETE", f"/deployments/{segment(name)}", ReasonBody(reason=cli.asked.reason), OperationAnswer, _operation
    )


@operates(app, "rebalance", examples=["deployments rebalance chat --prefill 1 --decode 3 --dry-run"])
def rebalance(cli: Cli, name: arguments.Deployment, prefill: Prefill, decode: Decode) -> None:
    """Trade prefill workers for decode workers, or back, without one device more at any moment."""
    pools = {pool.role: pool for pool in find.deployment(cli.client, name).view.pools}
    if not {Role.PREFILL, Role.DECODE} <= set(pools):
        raise BadValue(f"{name} has no pools of prefill and decode workers to trade between.")
    body = RebalanceBody(
        prefill=prefill,
        decode=decode,
        prefill_generation=pools[Role.PREFILL].generation,
        decode_generation=pools[Role.DECODE].generation,
        reason=cli.asked.reason,
    )
    cli.operate("POST", f"/deployments/{segment(name)}/rebalance", body, OperationAnswer, _operation)


@reads(app, "revisions", examples=["deployments revisions chat"])
def revisions(cli: Cli, name: arguments.Deployment) -> None:
    """What it runs or ran: models and settings, the newest first."""
    found = cli.client.items(f"/deployments/{segment(name)}/revisions", RevisionView)
    columns = (
        Column("NUMBER", lambda each: each.number, right=True),
        Column("MODEL", lambda each: each.model),
        Column("MODEL REVISION", lambda each: each.model_revision),
        Column("NOTE", lambda each: each.note),
        Column("BY", lambda each: each.created_by),
        Column("CREATED", lambda each: moment(each.created_at)),
    )
    cli.out.rows(found.view, found.raw, columns, lambda each: str(each.number), "It has no revisions.")


def pools_in_short(view: DeploymentView) -> str:
    return ", ".join(f"{pool.role} {pool.ready}/{pool.replicas}" for pool in view.pools)


def revision_in_short(view: DeploymentView) -> str:
    if view.rollout is None:
        return str(view.revision)
    return f"{view.revision} -> {view.rollout.candidate} ({view.rollout.share:.0%})"


def _operation(answer: OperationAnswer) -> OperationView:
    return answer.operation


def _promised(view: DeploymentView) -> str:
    promised = [
        f"{name} {value:g} s"
        for name, value in (("TTFT", view.slo_ttft_s), ("TPOT", view.slo_tpot_s))
        if value is not None
    ]
    return ", ".join(promised) or "nothing"


def _rollout(view: DeploymentView) -> str:
    rollout = view.rollout
    if rollout is None:
        return "none"
    failed = "?" if rollout.error_rate is None else f"{rollout.error_rate:.1%}"
    missed = "?" if rollout.slo_miss_rate is None else f"{rollout.slo_miss_rate:.1%}"
    return (
        f"{rollout.share:.0%} to revision {rollout.candidate}{', paused' if rollout.paused else ''}: "
        f"{rollout.ready} of {rollout.wanted} workers ready; of {rollout.requests} requests {failed} failed, "
        f"{missed} missed what is promised"
    )
