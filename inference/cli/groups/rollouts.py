"""`tandem deployments rollout`, `rollback`, `pause` and `resume`: how revisions change."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import structs

from inference.cli import arguments, completion, find
from inference.cli.client import segment
from inference.cli.command import Cli, operates, writes
from inference.cli.errors import BadValue
from inference.cli.group import group
from inference.cli.settings import Setting, engine_settings
from inference.contracts.answers import OperationAnswer, RolloutAnswer
from inference.contracts.bodies.pools import RollBackBody, RollOutBody
from inference.contracts.rollout import RolloutPolicy
from inference.contracts.views.pools import DeploymentView

app = group("Revisions of a deployment.")


@operates(
    app,
    "rollout",
    examples=[
        "deployments rollout chat --model smollm3 --step 25 --wait",
        "deployments rollout chat --set kv_tokens=32768 --note 'more room' --dry-run",
    ],
)
def rollout(
    cli: Cli,
    name: arguments.Deployment,
    model: Annotated[str | None, typer.Option("--model", show_default=False, autocompletion=completion.models)] = None,
    model_revision: Annotated[str | None, typer.Option("--model-revision", show_default=False)] = None,
    setting: Setting = None,
    step: Annotated[
        float | None,
        typer.Option("--step", min=0, max=100, help="Percent changed at a time; else one pair.", show_default=False),
    ] = None,
    observe: Annotated[
        float | None, typer.Option("--observe", min=0, help="Seconds a step must be well.", show_default=False)
    ] = None,
    max_error_rate: Annotated[
        float | None,
        typer.Option("--max-error-rate", min=0, max=1, help="Taken back beyond it.", show_default=False),
    ] = None,
    max_slo_miss_rate: Annotated[
        float | None,
        typer.Option("--max-slo-miss-rate", min=0, max=1, help="Taken back beyond it.", show_default=False),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="What is new.", show_default=False)] = "",
) -> None:
    """Another model, model revision or settings, step by step, and back by itself when it does badly.

    What is not given stays as it is in the revision that serves.
    """
    if model is None and model_revision is None and not setting:
        raise BadValue("Say what is to change: --model, --model-revision or --set.")
    given = {
        "step": None if step is None else step / 100,
        "observe_s": observe,
        "max_error_rate": max_error_rate,
        "max_slo_miss_rate": max_slo_miss_rate,
    }
    serving = find.deployment(cli.client, name).view.settings if setting else None
    body = RollOutBody(
        model=model,
        model_revision=model_revision,
        settings=None if serving is None else engine_settings(setting or [], serving),
        policy=_policy(cli, name, {key: value for key, value in given.items() if value is not None}),
        note=note,
        reason=cli.asked.reason,
    )
    cli.operate("POST", f"/deployments/{segment(name)}/rollout", body, OperationAnswer, lambda answer: answer.operation)


@operates(app, "rollback", examples=["deployments rollback chat --wait", "deployments rollback chat --to 3"])
def rollback(
    cli: Cli,
    name: arguments.Deployment,
    to: Annotated[int | None, typer.Option("--to", min=1, help="Number of the revision.", show_default=False)] = None,
) -> None:
    """An earlier revision serves again: without --to the one before, or the one that a roll-out was leaving."""
    body = RollBackBody(to=to, reason=cli.asked.reason)
    cli.operate(
        "POST", f"/deployments/{segment(name)}/rollback", body, OperationAnswer, lambda answer: answer.operation
    )


@writes(app, "pause", examples=["deployments pause chat"])
def pause(cli: Cli, name: arguments.Deployment) -> None:
    """The roll-out keeps its present share; it is still taken back when it does badly."""
    answer = cli.change("POST", f"/deployments/{segment(name)}/rollout/pause", None, DeploymentView)
    cli.out.done(answer.raw, f"The roll-out of {name} is paused.", name)


@writes(app, "resume", examples=["deployments resume chat"])
def resume(cli: Cli, name: arguments.Deployment) -> None:
    """The roll-out goes on."""
    answer = cli.change("POST", f"/deployments/{segment(name)}/rollout/resume", None, DeploymentView)
    cli.out.done(answer.raw, f"The roll-out of {name} goes on.", name)


def _policy(cli: Cli, name: str, given: dict[str, float]) -> RolloutPolicy | None:
    """The deployment's own, with what was given; the API takes it whole."""
    if not given:
        return None
    policy = cli.client.get(f"/deployments/{segment(name)}/rollout", RolloutAnswer).view.policy
    return structs.replace(policy, **given)
