"""Lengths of time as people write them, and moments as people read them."""

from __future__ import annotations

import re

import typer

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_S = 30 * 86400.0


def seconds(text: str | float) -> float:
    """ "90", "90s", "1.5m", "2h" or "1d" in seconds; up to 30 days.

    Raises:
        typer.BadParameter: it is something else.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", str(text).strip())
    length = float(found[1]) * _UNITS[found[2]] if found else None
    if length is None or not 0 < length <= _LONGEST_S:
        raise typer.BadParameter(f"{text!r} is no length of time: 90, 90s, 30m, 2h and 1d are; at most 30 days.")
    return length


def moment(iso: str | None, *, missing: str = "never") -> str:
    """A moment of the API (ISO 8601, UTC) to the second."""
    if iso is None:
        return missing
    return iso[:19].replace("T", " ") + "Z"
