"""Where results and remarks go: results to stdout as tables, the API's JSON or bare names; remarks to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table

from inference.cli.live_line import LiveLine
from inference.cli.plain import plain

T = TypeVar("T")

#: Wide enough for any table: programs that read it want one line for each row.
_PIPE_WIDTH = 1000


class Style(StrEnum):
    TABLE = "table"
    JSON = "json"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Column:
    """title: of the column. cell: what a view shows there; None is not known."""

    title: str
    cell: Callable[[Any], object]
    right: bool = False


def _console(stderr: bool) -> Console:
    tty = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=None if tty else _PIPE_WIDTH)


@dataclass(slots=True)
class Output:
    style: Style
    console: Console = field(default_factory=lambda: _console(stderr=False))
    errors: Console = field(default_factory=lambda: _console(stderr=True))

    @property
    def for_people(self) -> bool:
        return self.style == Style.TABLE

    def rows(
        self, views: Sequence[T], raw: Any, columns: Sequence[Column], name: Callable[[T], str], empty: str
    ) -> None:
        """A list. name: what --quiet prints of each. empty: what is said when there is none."""
        if self.style == Style.JSON:
            self._json(raw)
        elif self.style == Style.QUIET:
            self._lines(name(view) for view in views)
        elif views:
            self.table(views, columns)
        else:
            self.note(empty)

    def one(self, raw: Any, fields: Sequence[tuple[str, object]], name: str) -> None:
        """One thing in detail."""
        if self.style == Style.JSON:
            self._json(raw)
        elif self.style == Style.QUIET:
            self._lines([name])
        else:
            self.fields(fields)

    def done(self, raw: Any, sentence: str, name: str = "") -> None:
        """What a write came to."""
        if self.style == Style.JSON:
            if raw is not None:
                self._json(raw)
        elif self.style == Style.QUIET:
            self._lines([name] if name else [])
        elif sentence:
            self.text(sentence)

    def secret(self, raw: Any, secret: str, sentence: str) -> None:
        """Shown this once: bare with --quiet, for programs."""
        self.done(raw, f"{sentence}\n{secret}", secret)

    def table(self, views: Iterable[Any], columns: Sequence[Column]) -> None:
        table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
        for column in columns:
            table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
        for view in views:
            table.add_row(*(shown(column.cell(view)) for column in columns))
        self.console.print(table)

    def fields(self, fields: Sequence[tuple[str, object]]) -> None:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in fields:
            table.add_row(name, shown(value))
        self.console.print(table)

    def text(self, text: str) -> None:
        self.console.print(plain(text), soft_wrap=True)

    def heading(self, text: str) -> None:
        self.console.print()
        self.console.print(plain(text), style="bold", soft_wrap=True)

    def note(self, text: str) -> None:
        """For people only."""
        if self.for_people:
            self.errors.print(plain(text), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Also where only programs read the results."""
        self.errors.print(plain(text), soft_wrap=True)

    def live_line(self) -> LiveLine:
        return LiveLine(self.errors, silent=self.style == Style.QUIET)

    def _json(self, raw: Any) -> None:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(raw)).decode() + "\n")

    def _lines(self, lines: Iterable[str]) -> None:
        sys.stdout.writelines(f"{plain(line)}\n" for line in lines)


def shown(value: object) -> str:
    """A value in a cell: "?" is not known, "-" is none."""
    if value is None:
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(each) for each in value) or "-"
    return plain(str(value)) or "-"
