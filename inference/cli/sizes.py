"""Amounts as people read them; None stays not known."""

from __future__ import annotations

_STEPS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(bytes_: float | None) -> str | None:
    """Bytes in binary units, three digits or so."""
    if bytes_ is None:
        return None
    amount, unit = float(bytes_), 0
    while amount >= 1024 and unit < len(_STEPS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {_STEPS[unit]}" if unit == 0 or amount >= 100 else f"{amount:.1f} {_STEPS[unit]}"


def share(part: float | None, whole: float | None) -> str | None:
    """`part` of `whole` in percent."""
    return None if part is None or not whole else f"{part / whole:.0%}"


def percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"


def count(number: int, noun: str) -> str:
    """ "1 node", "2 nodes"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
