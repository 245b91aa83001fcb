"""The commands as a person meets them before any control plane is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from inference.cli import completion
from inference.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
NOWHERE = {"XDG_CONFIG_HOME": "/nonexistent", "TANDEM_URL": "", "TANDEM_TOKEN": ""}


def all_commands() -> dict[str, object]:
    found = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        for below, inner in getattr(command, "commands", {"": command}).items():
            found[f"{name} {below}".strip()] = inner
    return found


COMMANDS = all_commands()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_says_what_it_does_in_a_sentence(name: str) -> None:
    told = CliRunner().invoke(app, [*name.split(), "--help"])
    assert told.exit_code == 0
    assert (getattr(COMMANDS[name], "help", None) or "").strip().endswith(".")


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"logout"}))
def test_every_command_has_an_example_that_names_it(name: str) -> None:
    epilog = getattr(COMMANDS[name], "epilog", None) or ""
    assert f"tandem {name}" in epilog


WRITES = {"create", "change", "delete", "resize", "rebalance", "rollout", "rollback", "pause", "resume", "add"}
WRITES |= {"flip", "restart", "cordon", "uncordon", "drain", "retire", "label", "join-command", "revoke-join"}
WRITES |= {
    "maintain",
    "reserve",
    "forget",
    "measure",
    "fetch",
    "cancel",
    "retry",
    "rotate",
    "revoke",
    "password",
    "unlock",
}


@pytest.mark.parametrize("name", sorted(name for name in COMMANDS if name.rpartition(" ")[2] in WRITES))
def test_every_write_can_be_tried(name: str) -> None:
    assert "dry_run" in {parameter.name for parameter in COMMANDS[name].params}  # type: ignore[attr-defined]


def test_exit_codes_are_told_in_the_help() -> None:
    told = CliRunner().invoke(app, ["--help"]).stdout
    assert "7    --timeout passed" in told
    assert "tandem login" in told


def test_without_a_login_one_is_told_how_to_log_in_on_stderr() -> None:
    told = CliRunner().invoke(app, ["pools", "list"], env=NOWHERE)
    assert (told.exit_code, told.stdout) == (3, "")
    assert told.stderr.startswith("tandem: Not logged in")


@pytest.mark.parametrize(
    "wrong",
    [
        ["pools", "resize"],
        ["pools", "resize", "chat", "--decode", "many"],
        ["pools", "resize", "chat", "--decode", "1", "--timeout", "soon"],
        ["deployments", "create", "chat"],
        ["nodes", "list", "--phase", "green"],
        ["nosuch"],
    ],
)
def test_what_can_not_be_right_is_refused_before_anything_is_asked(wrong: list[str]) -> None:
    told = CliRunner().invoke(app, wrong, env=NOWHERE)
    assert told.exit_code == 2
    assert told.stderr


def test_it_runs_from_a_checkout_without_django_or_torch() -> None:
    code = (
        "import sys, inference.cli.main; "
        "print([name for name in ('django', 'torch', 'aiohttp', 'celery', 'controlplane') if name in sys.modules])"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == "[]"
    told = subprocess.run([sys.executable, "-m", "inference.cli", "--help"], cwd=ROOT, capture_output=True, check=True)
    assert b"Usage: tandem" in told.stdout


def test_completion_without_a_control_plane_offers_nothing_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TANDEM_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("TANDEM_TOKEN", "tdm-x")
    assert completion.pools("") == []
    assert capfd.readouterr() == ("", "")
