"""The console is built with the machine's Node.js only if that is new enough."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from controlplane.launch.node_path import node_path


def machine_with(directory: Path, monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    for program, version in versions.items():
        script = directory / program
        script.write_text(f"#!/bin/sh\necho {version}\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))


def test_a_new_enough_node_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_with(tmp_path, monkeypatch, node="v20.19.5", npm="11.1.0")
    assert node_path() == str(tmp_path)


@pytest.mark.parametrize(
    "versions", [{}, {"node": "v18.20.4", "npm": "11.1.0"}, {"node": "v24.0.0", "npm": "10.9.0"}, {"node": "v24.0.0"}]
)
def test_else_the_wheels_programs_come_first(
    versions: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_with(tmp_path, monkeypatch, **versions)
    assert node_path().split(":")[0] == str(Path(sys.executable).parent)
