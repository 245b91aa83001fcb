"""Rows as a Markdown table, and the part of a document that is generated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.bench.rows import Row

_HEAD = ("measure", "Tandem", "beside it", "ratio", "wanted", "stretch", "reached")


def table(rows: Iterable[Row]) -> str:
    lines = [_line(_HEAD), "|" + "---|" * len(_HEAD)]
    return "\n".join(lines + [_line(_cells(row)) for row in rows])


def facts_line(facts: Mapping[str, Any]) -> str:
    said = ((name, ", ".join(value) if isinstance(value, list) else value) for name, value in facts.items())
    return "; ".join(f"{name}: {value}" for name, value in said)


def replace_section(document: Path, name: str, text: str) -> None:
    """Put `text` between the two marks of section `name`. ValueError when they are not there."""
    begin, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
    whole = document.read_text()
    before, found, rest = whole.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{document} has no section between {begin} and {end}")
    document.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}")


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("\n", " ").replace("|", "/") for cell in cells) + " |"


def _cells(row: Row) -> list[str]:
    reference = "" if row.reference is None else f" {figure(row.reference)} {row.unit}"
    reached = {None: "-", True: "stretch" if row.stretched else "yes", False: "**no**"}[row.reached]
    return [
        row.name + (f" ({row.note})" if row.note else ""),
        "-" if row.value is None else f"{figure(row.value)} {row.unit}".strip(),
        f"{row.compared_with}{':' * bool(row.compared_with and reference)}{reference}".strip() or "-",
        "-" if row.ratio is None else judged(row.ratio, row.judged),
        "-" if row.target is None else f"{row.better} {judged(row.target, row.judged)}",
        "-" if row.stretch is None else judged(row.stretch, row.judged),
        reached,
    ]


def figure(value: float) -> str:
    """Three digits that count, never an exponent."""
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def judged(value: float, how: str) -> str:
    if how == "share":
        return f"{value * 100:.3g} %"
    return f"{value:,.4g}" if how == "count" else f"{value:.2f}x"
