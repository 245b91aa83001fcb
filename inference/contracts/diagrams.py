"""The state diagrams as a page of the docs, written from the enums: `python -m inference.contracts.diagrams`.

The diagram stands in the docstring of its enum, beside the code that moves the state, and nowhere else by hand.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from enum import StrEnum
from textwrap import dedent, fill

from inference.contracts import states

HEADER = """# States

<!-- Written by `make generate` from inference/contracts/states.py. Do not edit. -->

Each state has one writer. What is wanted and what is seen are different states of the same thing.
"""

#: A paragraph with one of these is drawn, not written.
_ARROWS = ("──>", "<──")

_WIDTH = 120


def render() -> str:
    """The whole page of Markdown, ending in a line break."""
    return "\n".join([HEADER, *("\n".join(_section(cls)) for cls in _drawn())])


def _drawn() -> list[type[StrEnum]]:
    """The enums with a diagram, in the order of their module."""
    found = [each for each in vars(states).values() if isinstance(each, type) and issubclass(each, StrEnum)]
    return [cls for cls in found if cls is not StrEnum and any(arrow in (cls.__doc__ or "") for arrow in _ARROWS)]


def _section(cls: type[StrEnum]) -> Iterator[str]:
    yield f"## {cls.__name__}\n"
    for paragraph in inspect.cleandoc(cls.__doc__ or "").split("\n\n"):
        if any(arrow in paragraph for arrow in _ARROWS):
            yield f"```text\n{dedent(paragraph)}\n```\n"
        else:
            yield from _text(" ".join(paragraph.split()), cls)


def _text(text: str, cls: type[StrEnum]) -> Iterator[str]:
    """A paragraph; where it explains states by name ("READY: ..."), each is an item of a list."""
    names = "|".join(cls.__members__)
    before, *named = re.split(rf"\b({names}): ", text)
    if before:
        yield f"{fill(before.strip(), _WIDTH)}\n"
    if named:
        items = zip(named[::2], named[1::2], strict=True)
        yield "\n".join(
            fill(f"- `{name}`: {meaning.strip()}", _WIDTH, subsequent_indent="  ") for name, meaning in items
        )
        yield ""


if __name__ == "__main__":
    sys.stdout.write(render())
