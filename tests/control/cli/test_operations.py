"""Operations: listed, shown, cancelled, retried, watched; and names for the shell."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from controlplane.operations.models import Operation
from inference.cli import completion, waiting
from tests.control.cli.conftest import Tandem
from tests.control.pools.world import World

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.django_db(transaction=True)


def test_operations_are_listed_and_shown(chat: World, tandem: Tandem) -> None:
    tandem.ok("pools resize m --decode 3 --reason why")
    newest = Operation.objects.get(kind="resize")
    assert tandem.ok("operations list --state running -q").strip() == str(newest.pk)
    assert tandem.ok("operations list --kind resize --deployment m --by 'token cli' -q").strip() == str(newest.pk)
    said = tandem.ok("operations show latest")
    assert "running" in said
    assert "As it was expected" in said
    assert tandem.json(f"operations show {str(newest.pk)[:8]}")["id"] == str(newest.pk)
    assert "There is no operation 'ffff-nope'" in tandem.refused("operations show ffff-nope", 4)


def test_an_operation_is_cancelled_and_retried(chat: World, tandem: Tandem) -> None:
    tandem.ok("pools resize m --decode 3")
    cancelled = str(Operation.objects.get(kind="resize").pk)
    assert "cancelled" in tandem.ok(f"operations cancel {cancelled} --reason 'wrong pool'")
    assert tandem.refused(f"operations cancel {cancelled}", 5)
    assert tandem(f"operations watch {cancelled}").exit_code == 1
    tandem.ok(f"operations retry {cancelled} --wait")
    assert tandem.json("operations show latest")["retry_of"] == cancelled


def test_watching_prints_the_operation_as_it_ended(chat: World, tandem: Tandem) -> None:
    tandem.ok("pools resize m --decode 3")
    assert tandem.json("operations watch latest")["state"] == "succeeded"


def test_the_shell_completes_names(chat: World, tandem: Tandem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_URL", tandem.url)
    monkeypatch.setenv("TANDEM_TOKEN", tandem.secret)
    assert completion.deployments("") == ["m"]
    assert completion.pools("m/d") == ["m/decode"]
    assert completion.workers("m/dec") == ["m/decode-1", "m/decode-2"]
    assert completion.nodes("") == ["a", "b"]
    assert completion.devices("a/cpu-1") == ["a/cpu-1"]
    assert completion.models("t") == ["tiny"]
    assert completion.tokens("") == ["cli"]
    assert completion.users("zz") == []
    assert len(completion.operations("")) == 1


def test_completion_does_not_wait_for_a_slow_control_plane(
    chat: World, tandem: Tandem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TANDEM_URL", tandem.url)
    monkeypatch.setenv("TANDEM_TOKEN", tandem.secret)
    monkeypatch.setattr(completion, "BOUND_S", 0.05)
    slow = completion.completer(lambda client: _late())
    began = time.monotonic()
    assert slow("") == []
    assert time.monotonic() - began < 0.4


def _late() -> list[str]:
    threading.Event().wait(0.5)
    return ["late"]


def test_who_interrupts_waiting_leaves_the_operation_alone(
    chat: World, tandem: Tandem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(waiting, "sleep_for", interrupt)
    told = tandem("pools resize m --decode 3 --wait")
    assert told.exit_code == 130
    assert "what was begun goes on" in told.stderr
    assert Operation.objects.get(kind="resize").state == "running"


def test_the_program_itself_runs_and_tells_its_exit_code(chat: World, tandem: Tandem) -> None:
    environment = {"PATH": os.environ["PATH"], "TANDEM_URL": tandem.url, "TANDEM_TOKEN": tandem.secret}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "inference.cli", *words]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)

    assert set(run("pools", "list", "-q").stdout.split()) == {"m/decode", "m/prefill"}
    missing = run("pools", "show", "m/unified")
    assert (missing.returncode, missing.stdout) == (4, "")
    assert missing.stderr == "tandem: There is no pool 'unified'.\n"
