"""`tandem models`: the catalogue, what fits where, and where the weights are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import msgspec
import typer

from inference.cli import arguments, completion, find
from inference.cli.client import segment
from inference.cli.command import Cli, operates, reads, writes
from inference.cli.durations import moment
from inference.cli.errors import BadValue
from inference.cli.group import group
from inference.cli.output import Column
from inference.cli.sizes import share, size
from inference.contracts.answers import FetchAnswer
from inference.contracts.bodies.models import FetchBody, ModelBody, ModelChangeBody
from inference.contracts.states import NodeDesired, NodePhase
from inference.contracts.views.fleet import NodeView
from inference.contracts.views.models import ModelFitView, ModelView, WeightsView

app = group("Models: what can be served.")

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", dir_okay=False, help="Its config.json, where none can be read.", show_default=False),
]
Revision = Annotated[str | None, typer.Option("--revision", help="Of a hub id.", show_default=False)]
Licence = Annotated[str | None, typer.Option("--licence", show_default=False)]
Description = Annotated[str | None, typer.Option("--description", show_default=False)]


def _weights(model: ModelView) -> str | None:
    known = model.shape.weights_bytes if model.shape else None
    return None if known is None else size(sum(known.values()))


def _of_shape(model: ModelView, name: str) -> Any:
    return None if model.shape is None else getattr(model.shape, name)


def _parameters(model: ModelView) -> str | None:
    count = _of_shape(model, "parameters")
    return None if count is None else f"{count / 1e9:.2f} B" if count >= 1e9 else f"{count / 1e6:.0f} M"


COLUMNS = (
    Column("NAME", lambda model: model.name),
    Column("SOURCE", lambda model: model.source),
    Column("PATH", lambda model: model.path),
    Column("ARCHITECTURE", lambda model: _of_shape(model, "architecture")),
    Column("PARAMETERS", _parameters, right=True),
    Column("WEIGHTS", _weights, right=True),
    Column("CONTEXT", lambda model: _of_shape(model, "context_length"), right=True),
    Column("KV/TOKEN", lambda model: size(model.kv_bytes_per_token), right=True),
)
WEIGHTS_COLUMNS = (
    Column("NODE", lambda each: each.node_name),
    Column("REVISION", lambda each: each.revision or "default"),
    Column("STATE", lambda each: each.state),
    Column("SIZE", lambda each: size(each.size_bytes), right=True),
    Column("FETCHED", lambda each: share(each.fetched_bytes, each.size_bytes), right=True),
    Column("REASON", lambda each: each.reason),
)
FIT_COLUMNS = (
    Column("DEVICE", lambda each: each.name or each.kind),
    Column("COUNT", lambda each: each.count, right=True),
    Column("FITS", lambda each: each.fits),
    Column("MEMORY", lambda each: size(each.memory_total), right=True),
    Column("NEEDED", lambda each: size(each.needed_bytes), right=True),
    Column("WEIGHTS", lambda each: size(each.weights_bytes), right=True),
    Column("KV", lambda each: size(each.kv_bytes), right=True),
    Column("ALLOWANCE", lambda each: size(each.allowance_bytes), right=True),
    Column("MOST KV TOKENS", lambda each: each.kv_tokens_max, right=True),
)


@reads(app, "list", examples=["models list"])
def list_(cli: Cli) -> None:
    """By name."""
    found = cli.client.items("/models", ModelView)
    cli.out.rows(found.view, found.raw, COLUMNS, lambda model: model.name, "The catalogue is empty.")


@reads(app, "show", examples=["models show smollm2-135m"])
def show(cli: Cli, name: arguments.Model) -> None:
    """One model, what it is made of, and which nodes have its weights."""
    found = cli.client.get(f"/models/{segment(name)}", ModelView)
    model = found.view
    engines = _of_shape(model, "engines")
    fields = [
        ("Name", model.name),
        ("Path", model.path),
        ("Source", model.source),
        ("Revision", model.revision or "default"),
        ("Licence", model.licence or None),
        ("Description", model.description),
        ("Architecture", _of_shape(model, "architecture")),
        ("Parameters", _parameters(model)),
        ("Weights", _weights(model)),
        ("Context", _of_shape(model, "context_length")),
        ("KV of a token", size(model.kv_bytes_per_token)),
        ("KV of a full context", size(model.kv_bytes_of_context)),
        ("Engines", None if engines is None else [f"{each}: {why or 'can'}" for each, why in sorted(engines.items())]),
        ("Known from", model.shape_from or None),
        ("Added", moment(model.created_at)),
    ]
    cli.out.one(found.raw, fields, model.name)
    if cli.out.for_people:
        weights = cli.client.items(f"/models/{segment(name)}/weights", WeightsView).view
        if weights:
            cli.out.heading("Weights")
            cli.out.table(weights, WEIGHTS_COLUMNS)


@writes(app, "add", examples=["models add smollm2-135m --path HuggingFaceTB/SmolLM2-135M-Instruct"])
def add(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    path: Annotated[str, typer.Option("--path", help="A hub id, a directory as the nodes see it, or an address.")],
    revision: Revision = None,
    licence: Licence = None,
    description: Description = None,
    config: ConfigFile = None,
) -> None:
    """Name something that can be served."""
    body = ModelBody(
        name=name,
        path=path,
        revision=revision or "",
        licence=licence or "",
        description=description or "",
        config=_config(config),
    )
    answer = cli.change("POST", "/models", body, ModelView)
    cli.out.done(answer.raw, f"{name} is in the catalogue.", name)


@writes(app, "change", examples=["models change smollm2-135m --licence apache-2.0"])
def change(
    cli: Cli,
    name: arguments.Model,
    path: Annotated[str | None, typer.Option("--path", show_default=False)] = None,
    revision: Revision = None,
    licence: Licence = None,
    description: Description = None,
    config: ConfigFile = None,
) -> None:
    """What is not given stays. Path and revision stay while deployments use it."""
    body = ModelChangeBody(
        path=path,
        revision=revision,
        licence=licence,
        description=description,
        config=_config(config),
    )
    if body == ModelChangeBody():
        raise BadValue("Say what is to change: --path, --revision, --licence, --description or --config.")
    answer = cli.change("PATCH", f"/models/{segment(name)}", body, ModelView)
    cli.out.done(answer.raw, f"{name} is changed.", name)


@writes(app, "delete", final=True, examples=["models delete smollm2-135m"])
def delete(cli: Cli, name: arguments.Model) -> None:
    """Refused while deployments use it. Files on nodes stay where they are."""
    cli.confirm(f"Delete {name}?")
    cli.change("DELETE", f"/models/{segment(name)}", None, type(None))
    cli.out.done(None, f"{name} is not in the catalogue any more.", name)


@reads(app, "fit", examples=["models fit llama-70b --tensor-parallel 4 --kv-tokens 131072"])
def fit(
    cli: Cli,
    name: arguments.Model,
    kv_tokens: Annotated[
        int | None, typer.Option("--kv-tokens", min=1, help="Size of the KV arena.", show_default=False)
    ] = None,
    tensor_parallel: Annotated[
        int | None, typer.Option("--tensor-parallel", min=1, help="Devices of each worker.", show_default=False)
    ] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="As in settings.", show_default=False)] = None,
) -> None:
    """On which types of device of the fleet it fits, and why."""
    found = cli.client.get(
        f"/models/{segment(name)}/fit",
        ModelFitView,
        kv_tokens=kv_tokens,
        tensor_parallel=tensor_parallel,
        dtype=dtype,
    )
    fitting = (each.name or str(each.kind) for each in found.view.devices if each.fits)
    if cli.out.for_people:
        load = found.view
        cli.out.note(f"{load.kv_tokens} KV tokens, {load.tensor_parallel} devices each, {load.dtype}; of one device:")
        cli.out.rows(load.devices, found.raw, FIT_COLUMNS, lambda each: each.name, "The fleet has no devices.")
    else:
        cli.out.done(found.raw, "", "\n".join(dict.fromkeys(fitting)))


@operates(app, "fetch", examples=["models fetch llama-70b node-1 node-2 --wait", "models fetch llama-70b --all"])
def fetch(
    cli: Cli,
    name: arguments.Model,
    nodes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NODE...", help="That shall have it.", autocompletion=completion.nodes, show_default=False
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All nodes that report and are not leaving.")] = False,
    revision: Revision = None,
) -> None:
    """Weights onto the disks of nodes, before workers need them."""
    if bool(nodes) == every:
        raise BadValue("Name the nodes, or say --all.")
    if every:
        ready = cli.client.items("/nodes", NodeView, phase=NodePhase.READY).view
        ids = tuple(UUID(node.id) for node in ready if node.desired in (NodeDesired.ACTIVE, NodeDesired.CORDONED))
    else:
        ids = tuple(UUID(find.node(cli.client, each).id) for each in nodes or ())
    body = FetchBody(nodes=ids, revision=revision, reason=cli.asked.reason)
    cli.operate("POST", f"/models/{segment(name)}/fetch", body, FetchAnswer, lambda answer: answer.operation)


@reads(app, "weights", examples=["models weights llama-70b"])
def weights(cli: Cli, name: arguments.Model) -> None:
    """Where its weights are, are being fetched, or could not be fetched."""
    found = cli.client.items(f"/models/{segment(name)}/weights", WeightsView)
    cli.out.rows(found.view, found.raw, WEIGHTS_COLUMNS, lambda each: each.node_name, "No node has to do with them.")


def _config(path: Path | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise BadValue(f"{path} is no config.json that can be read: {error}.") from error
