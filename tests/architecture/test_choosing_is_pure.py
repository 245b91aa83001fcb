"""Where a request goes is chosen without a clock, a task, a socket or chance of its own, so that a simulator may use it
as it is. That it imports nothing that acts is a contract of import-linter; here is what such a contract can't say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "inference" / "router" / "choosing").glob("**/*.py"))

#: Of what is not Tandem's: what computes and keeps nothing. `random` for the type of what is handed in.
ALLOWED = {
    *("__future__", "array", "bisect", "collections", "dataclasses", "random", "statistics", "typing"),
    *("msgspec", "xxhash"),
}
OF_TANDEM = ("inference.contracts", "inference.router.choosing")


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


def breaches(code: str) -> list[str]:
    tree = ast.parse(code)
    found = [
        name
        for name in imported(tree)
        if name.split(".")[0] not in ALLOWED and not any(name == of or name.startswith(f"{of}.") for of in OF_TANDEM)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.Global | ast.Nonlocal):
            found.append(type(node).__name__)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random":
            found += [] if node.attr == "Random" else [f"random.{node.attr}"]
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "random.Random":
            found.append("random.Random()")
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            found.append("from random")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_choosing_does_nothing_but_compute(file: Path) -> None:
    assert breaches(file.read_text()) == []


@pytest.mark.parametrize(
    "code",
    [
        "import time",
        "import asyncio",
        "from os import environ",
        "from inference.process.tasks import end",
        "from inference.router.travel.tried import Tried",
        "from inference.router import errors",
        "import random; x = random.random()",
        "import random; rng = random.Random(1)",
        "from random import choice",
        "async def f(): ...",
    ],
)
def test_what_acts_would_be_seen(code: str) -> None:
    assert breaches(code)


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 10
