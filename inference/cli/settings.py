"""Engine settings as they are typed: `--set kv_tokens=4096`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from inference.cli.errors import BadValue
from inference.contracts.specs import EngineSettings

Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="An engine setting; again for more.", show_default=False),
]


_DEFAULTS = EngineSettings()


def engine_settings(given: Sequence[str], base: EngineSettings = _DEFAULTS) -> EngineSettings:
    """`base` with what was `given`; "none" for None, commas between several values.

    Raises:
        BadValue: there is no such setting, or it can't have that value.
    """
    values = msgspec.to_builtins(base)
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or name not in EngineSettings.__struct_fields__:
            raise BadValue(f"--set takes NAME=VALUE, not {each!r}; names are {', '.join(values)}.")
        values[name] = None if value == "none" else value
        if isinstance(getattr(base, name), tuple):
            values[name] = [] if value == "none" else value.split(",")
    try:
        return msgspec.convert(values, EngineSettings, strict=False)
    except msgspec.ValidationError as error:
        raise BadValue(f"--set: {error}.") from error
