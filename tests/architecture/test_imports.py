"""The import contracts of pyproject.toml hold (import-linter)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_import_contracts_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}"}
    done = subprocess.run(
        [program, "--no-cache"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_a_forbidden_import_would_be_caught(tmp_path: Path) -> None:
    """The check can fail: the same contracts, with a planted import of Django in the router."""
    for name in ("inference", "platform", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "inference").unlink()
    subprocess.run(["cp", "-r", ROOT / "inference", tmp_path / "inference"], check=True)
    (tmp_path / "inference" / "router" / "planted.py").write_text("import django\n")
    program = Path(sys.executable).with_name("lint-imports")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'platform'}:{tmp_path}"}
    done = subprocess.run(
        [program, "--no-cache"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "inference.router.planted" in done.stdout
