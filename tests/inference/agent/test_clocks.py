"""F14: a wrong clock on a machine must not matter, because nothing compares clocks of two machines, or of one machine
at two times."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import msgspec
import pytest

from inference.agent.workers.process import birth_of
from inference.contracts.reports import NodeReport, WorkerReport
from inference.contracts.specs import NodeSpec, WorkerSpec
from inference.contracts.states import WorkerPhase
from tests.inference.agent.node_under_test import ROOT, NodeUnderTest, worker

WALL_CLOCKS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "psutil.boot_time"}


def test_the_agents_wall_clock_stamps_windows_and_is_told_in_reports_and_decides_nothing() -> None:
    users = set()
    for path in (ROOT / "inference" / "agent").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in WALL_CLOCKS | {"create_time"}:
                users.add(path.name)
    assert users == {"windows.py", "self_report.py"}


@pytest.mark.parametrize("message", [NodeReport, WorkerReport, NodeSpec, WorkerSpec])
def test_messages_between_node_and_control_plane_carry_durations_and_no_times(message: type) -> None:
    for field in msgspec.structs.fields(message):
        assert not field.name.endswith(("_at", "_time", "_ts", "timestamp")), field.name


def test_a_jump_of_the_clock_while_running_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1", "oom-times=1"))
        node.wait("w1", WorkerPhase.READY)
        for offset in (600.0, -600.0):
            monkeypatch.setattr(time, "time", lambda offset=offset: real() + offset)
            report = node.wait("w1", WorkerPhase.READY)
            assert report.pid is not None
            birth = birth_of(report.pid)
            node.want(worker("w1"), worker(f"later{int(offset)}"))
            node.wait(f"later{int(offset)}", WorkerPhase.READY)
            assert node.wait("w1", WorkerPhase.READY).pid == report.pid
            assert birth_of(report.pid) == birth
