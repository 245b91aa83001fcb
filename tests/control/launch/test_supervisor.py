"""The one-machine supervisor: nothing is left behind, nothing stays down, nobody else's process is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from controlplane.launch import supervisor as supervising
from controlplane.launch.services import Service
from controlplane.launch.supervisor import StartFailed, Supervisor, stop_leftovers

DEADLINE_S = 20.0


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(tmp_path: Path, said: list[str]) -> Iterator[Supervisor]:
    made = Supervisor(logs=tmp_path / "logs", record=tmp_path / "run.json", say=said.append)
    yield made
    made.stop()


def python_service(name: str, code: str, is_ready: Callable[[], bool] = lambda: True, stop_s: float = 5.0) -> Service:
    return Service(name=name, title=name, argv=[sys.executable, "-c", code], is_ready=is_ready, stop_s=stop_s)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.02)


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]


def test_stop_leaves_no_process_even_of_one_that_ignores_sigterm(supervisor: Supervisor, tmp_path: Path) -> None:
    before = set(children())
    deaf = (
        "import signal, time, pathlib; signal.signal(15, signal.SIG_IGN); pathlib.Path('{}').touch(); time.sleep(600)"
    )
    supervisor.start(python_service("deaf", deaf.format(tmp_path / "up"), stop_s=0.2))
    parent = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    supervisor.start(python_service("parent", parent))
    wait_until(lambda: (tmp_path / "up").exists() and len(set(children()) - before) == 3)
    supervisor.stop()
    wait_until(lambda: set(children()) <= before)
    assert not (tmp_path / "run.json").exists()


def test_a_process_that_ends_is_started_again_and_said_so(
    supervisor: Supervisor, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "BACKOFF_S", (0.05,))
    starts = tmp_path / "starts"
    code = f"open({str(starts)!r}, 'a').write('x'); print('out of luck')"
    supervisor.start(python_service("fragile", code))

    def restarted() -> bool:
        supervisor.watch()
        return starts.exists() and len(starts.read_text()) >= 3

    wait_until(restarted)
    assert any("fragile ended with 0" in line for line in said)
    assert any("out of luck" in line for line in said)


def test_restarts_come_later_and_later(
    supervisor: Supervisor, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "BACKOFF_S", (0.01, 0.02, 7.0))
    supervisor.start(python_service("broken", "raise SystemExit(3)"))

    def resigned() -> bool:
        supervisor.watch()
        return any("in 7 s" in line for line in said)

    wait_until(resigned)


def test_a_process_that_ends_before_it_is_ready_fails_the_start_with_its_last_words(supervisor: Supervisor) -> None:
    service = python_service("doomed", "print('no such file: x'); raise SystemExit(2)", is_ready=lambda: False)
    supervisor.start(service)
    with pytest.raises(StartFailed, match=r"doomed ended with 2(.|\n)*no such file: x"):
        supervisor.wait_ready(service, DEADLINE_S)


def test_a_process_that_is_never_ready_fails_the_start_at_the_deadline(supervisor: Supervisor) -> None:
    service = python_service("slow", "import time; time.sleep(600)", is_ready=lambda: False)
    supervisor.start(service)
    with pytest.raises(StartFailed, match=r"slow was not ready within 0 s"):
        supervisor.wait_ready(service, 0.3)


def test_leftovers_of_a_killed_run_are_stopped(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    record = tmp_path / "run.json"
    record.write_text(json.dumps([[process.pid, psutil.Process(process.pid).create_time()]]))
    assert stop_leftovers(record) == 1
    # Reaped by psutil already, so its code is gone; what counts is that it is no more.
    process.wait(DEADLINE_S)
    assert not psutil.pid_exists(process.pid)
    assert not record.exists()


def test_a_pid_that_belongs_to_somebody_else_now_is_left_alone(tmp_path: Path) -> None:
    record = tmp_path / "run.json"
    record.write_text(json.dumps([[os.getpid(), psutil.Process().create_time() - 100]]))
    assert stop_leftovers(record) == 0


def test_a_damaged_record_is_ignored(tmp_path: Path) -> None:
    record = tmp_path / "run.json"
    record.write_text("{half")
    assert stop_leftovers(record) == 0
