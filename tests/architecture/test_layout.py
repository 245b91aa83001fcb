"""Rules about files that no linter knows."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOP_LEVEL = {
    *("manage.py", "platform", "inference", "frontend", "requirements.txt", "tests", "docker-compose.yml"),
    *("pyproject.toml", "Makefile", "Dockerfile", "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"),
    *("CHANGELOG.md", "THREAT_MODEL.md", "LICENSE"),
}


def tracked_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return listed.splitlines()


def test_platform_is_a_source_root_with_one_entry_and_no_package() -> None:
    entries = {path.name for path in (ROOT / "platform").iterdir()} - {"__pycache__"}
    assert entries == {"controlplane"}


def test_import_platform_gives_the_standard_library() -> None:
    assert Path(str(platform.__file__)).is_relative_to(sysconfig.get_paths()["stdlib"])


def test_top_level_holds_only_what_the_layout_names() -> None:
    top = {name.split("/")[0] for name in tracked_files()}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_module_is_called_after_nothing_in_particular() -> None:
    vague = re.compile(r"(^|/)(utils?|helpers?|common|managers?|misc)\.(py|ts|tsx)$")
    assert [name for name in tracked_files() if vague.search(name)] == []


def test_task_modules_only_translate() -> None:
    long = {str(path): len(path.read_text().splitlines()) for path in (ROOT / "platform").rglob("tasks.py")}
    assert {path: lines for path, lines in long.items() if lines > 120} == {}


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("inference.contracts.console", ["torch", "django", "aiohttp", "redis", "celery"]),
        ("inference.router.main", ["torch", "transformers", "django"]),
        ("inference.agent.main", ["torch", "transformers", "django.db"]),
        ("controlplane.config.asgi", ["torch", "transformers"]),
        ("inference.worker.server", ["torch", "transformers", "django"]),
    ],
)
def test_process_does_not_load(module: str, absent: list[str]) -> None:
    code = f"import sys, {module}; print([name for name in {absent!r} if name in sys.modules])"
    paths = {"PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    environment = {**paths, "TANDEM_SECRET_KEY": "tests", "TANDEM_CLUSTER_SECRET": "tests"}
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    ).stdout
    assert printed.strip().splitlines()[-1] == "[]"


def test_nothing_unpickles() -> None:
    code = [name for name in tracked_files() if name.endswith(".py") and not name.startswith("tests/")]
    pattern = re.compile(r"^\s*(import pickle|from pickle|import cloudpickle|import dill)|torch\.load\(", re.MULTILINE)
    assert [name for name in code if pattern.search((ROOT / name).read_text())] == []


def test_lock_file_of_the_console_names_no_download_addresses() -> None:
    assert '"resolved"' not in (ROOT / "frontend" / "package-lock.json").read_text()
