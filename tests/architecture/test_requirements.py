"""Everything that is imported is pinned: what another package happens to bring may go with its next version."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = {"inference", "controlplane", "tests", "frontend"}
#: Pinned by the bench, in environments of their own (tests/bench/peers/environments.py).
PEERS = {"vllm"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(path: Path) -> Iterator[str]:
    """Top-level names of what a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def names_pinned(lines: list[str]) -> set[str]:
    """Distributions that `lines` name, each with its version."""
    pins = [re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?==[\w.]+", line) for line in lines]
    assert all(pins), f"a line is no pin: {lines}"
    return {normal(pin[1]) for pin in pins if pin}


def test_everything_that_is_imported_is_pinned() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pinned = names_pinned([line for line in lines if line and line[0] != "#"])
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    optional = names_pinned([line for extra in extras.values() for line in extra])
    files = [path for folder in ("inference", "platform", "tests") for path in (ROOT / folder).rglob("*.py")]
    names = {name for path in files for name in imported(path)} - OURS - PEERS - set(sys.stdlib_module_names)
    owners = packages_distributions()

    missing = {
        name
        for name in names
        if not {normal(owner) for owner in owners.get(name, [])} & pinned and normal(name) not in optional
    }
    assert missing == set()
