"""Settings as they are typed: `--set kv_tokens=4096`, `--route idle_s=20`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
import typer

from inference.cli.errors import BadValue
from inference.contracts.routing_policy import RoutingPolicy
from inference.contracts.specs import EngineSettings

S = TypeVar("S", EngineSettings, RoutingPolicy)

Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="An engine setting; again for more.", show_default=False),
]


_DEFAULTS = EngineSettings()
_DEFAULT_ROUTING = RoutingPolicy()


def engine_settings(given: Sequence[str], base: EngineSettings = _DEFAULTS) -> EngineSettings:
    """As `with_values`, of --set."""
    return with_values("--set", given, base)


def routing_policy(given: Sequence[str], base: RoutingPolicy = _DEFAULT_ROUTING) -> RoutingPolicy:
    """As `with_values`, of --route."""
    return with_values("--route", given, base)


def with_values(option: str, given: Sequence[str], base: S) -> S:
    """`base` with what was `given`; "none" for None, commas between several values.

    Raises:
        BadValue: there is no such setting, or it can't have that value.
    """
    values = msgspec.to_builtins(base)
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or name not in base.__struct_fields__:
            raise BadValue(f"{option} takes NAME=VALUE, not {each!r}; names are {', '.join(values)}.")
        values[name] = None if value == "none" else value
        if isinstance(getattr(base, name), tuple):
            values[name] = [] if value == "none" else value.split(",")
    try:
        return msgspec.convert(values, type(base), strict=False)
    except msgspec.ValidationError as error:
        raise BadValue(f"{option}: {error}.") from error
