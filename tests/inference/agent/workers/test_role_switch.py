"""A worker wanted in another role: drained, switched in place, and what happens when that goes wrong."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

from inference.agent.config import OnStop
from inference.agent.workers.logs import tail
from inference.contracts.reports import WorkerReport
from inference.contracts.specs import WorkerSpec
from inference.contracts.states import Role, WorkerDesired, WorkerPhase, may_move
from tests.inference.agent.node_under_test import NodeUnderTest, is_alive, wait_for, worker


def decode(script: str = "ok", **changes: Any) -> WorkerSpec:
    return worker("w1", script, role=Role.DECODE, pool_id="pool-decode", **changes)


def prefill(script: str = "ok", **changes: Any) -> WorkerSpec:
    return worker("w1", script, role=Role.PREFILL, pool_id="pool-prefill", revision=2, **changes)


def started(node: NodeUnderTest, spec: WorkerSpec) -> int:
    node.want(spec)
    pid = node.wait("w1", WorkerPhase.READY).pid
    assert pid is not None
    return pid


def in_role(node: NodeUnderTest, role: Role, phase: WorkerPhase = WorkerPhase.READY) -> WorkerReport:
    def there() -> WorkerReport | None:
        report = node.report("w1")
        return report if report is not None and (report.role, report.phase) == (role, phase) else None

    found: WorkerReport = wait_for(there, 20, lambda: f"{role} {phase}; reported is {node.report('w1')}")
    return found


def test_an_idle_worker_changes_its_role_in_its_process_and_back(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        pid = started(node, decode())
        for spec in (prefill(), decode(), prefill()):
            node.want(spec)
            report = in_role(node, spec.role)
            assert (report.pid, report.reason, report.refused_role, report.drain_left_s) == (pid, "", None, None)
        assert "becomes prefill of pool-prefill" in tail(node.state.log_file("w1"))
        assert (report.incarnation, report.attempts) == ("w1-1", 1)


def test_it_takes_no_more_than_a_moment_although_probes_are_seconds_apart(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, probe_interval_s=3600, tick_s=0.05) as node:
        pid = started(node, decode())
        node.want(prefill())
        assert in_role(node, Role.PREFILL).pid == pid


def test_phases_on_the_way_are_legal_and_the_old_role_is_never_ready_again(tmp_path: Path) -> None:
    seen: list[tuple[Role, WorkerPhase]] = []
    with NodeUnderTest(tmp_path) as node:
        started(node, decode())
        node.supervisor._on_change = lambda: seen.extend(  # type: ignore[method-assign]
            (track.role, track.phase(0.0)) for track in node.supervisor._tracks.values()
        )
        node.want(prefill())
        in_role(node, Role.PREFILL)
        node.supervisor._on_change = lambda: None  # type: ignore[method-assign]
    phases = [phase for _, phase in seen]
    assert WorkerPhase.DRAINING in phases
    assert WorkerPhase.SWITCHING in phases
    assert seen[-1] == (Role.PREFILL, WorkerPhase.READY)
    steps = [WorkerPhase.READY, *phases]
    assert all(may_move(old, new) for old, new in pairwise(steps))
    left = phases.index(WorkerPhase.DRAINING)
    assert (Role.DECODE, WorkerPhase.READY) not in seen[left:]


def test_a_busy_worker_finishes_first_and_the_wait_is_counted_down(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        pid = started(node, decode())
        busy = node.folder("w1") / "busy"
        busy.touch()
        wait_for(lambda: node.report("w1").load.running == 1)  # type: ignore[union-attr]
        node.want(prefill(drain_deadline_s=60))
        report = in_role(node, Role.DECODE, WorkerPhase.DRAINING)
        assert report.drain_left_s is not None
        assert report.reason == "finishes what it has, then becomes prefill"
        busy.unlink()
        assert in_role(node, Role.PREFILL).pid == pid


def test_putting_the_role_back_while_it_drains_calls_the_change_off(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        pid = started(node, decode("busy"))
        node.want(prefill("busy"))
        in_role(node, Role.DECODE, WorkerPhase.DRAINING)
        node.want(decode("busy"))
        report = in_role(node, Role.DECODE)
        assert (report.pid, report.drain_left_s) == (pid, None)
        assert "becomes" not in "".join(tail(node.state.log_file("w1")))


def test_a_drain_past_its_deadline_ends_the_process_and_starts_one_in_the_new_role(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        pid = started(node, decode("busy"))
        node.want(prefill("ok", drain_deadline_s=0.3))
        stopping = node.wait("w1", WorkerPhase.STOPPING)
        assert stopping.reason == "the drain deadline has passed; it is started anew as prefill"
        report = in_role(node, Role.PREFILL)
        assert report.pid != pid
        assert not is_alive(pid)
        assert (report.incarnation, report.revision) == ("w1-1", 2)


def test_a_refusal_is_reported_not_repeated_and_the_worker_serves_on_in_its_old_role(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        pid = started(node, decode())
        (node.folder("w1") / "refuse-switch").touch()
        node.want(prefill())
        report = wait_for(lambda: (r := node.report("w1")) and r.refused_role and r.phase is WorkerPhase.READY and r)
        assert (report.pid, report.role, report.refused_role) == (pid, Role.DECODE, Role.PREFILL)
        assert report.reason == "could not become prefill: no token came out"
        (node.folder("w1") / "refuse-switch").unlink()
        node.want(prefill(), worker("w2"))
        node.wait("w2", WorkerPhase.READY)
        assert in_role(node, Role.DECODE).refused_role is Role.PREFILL, "the same spec is not tried again"
        node.want(prefill(restart=1), worker("w2"))
        report = in_role(node, Role.PREFILL)
        assert (report.pid, report.refused_role, report.reason) == (pid, None, "")


def test_a_refusal_outlives_a_restart_of_the_agent(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, on_stop=OnStop.LEAVE) as node:
        pid = started(node, decode())
        (node.folder("w1") / "refuse-switch").touch()
        node.want(prefill())
        wait_for(lambda: node.report("w1").refused_role)  # type: ignore[union-attr]
        node.wait("w1", WorkerPhase.READY)
        node.close()
        (node.folder("w1") / "refuse-switch").unlink()
        with NodeUnderTest(tmp_path) as after:
            report = in_role(after, Role.DECODE)
            assert (report.pid, report.refused_role) == (pid, Role.PREFILL)


def test_a_worker_that_hangs_in_the_change_is_replaced_by_one_in_the_new_role(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, switch_deadline_s=0.5) as node:
        pid = started(node, decode())
        hang = node.folder("w1") / "hang-switch"
        hang.touch()
        node.want(prefill())
        in_role(node, Role.DECODE, WorkerPhase.SWITCHING)
        broken = node.wait("w1", WorkerPhase.BACKOFF)
        assert broken.reason == "hung in a change of its role; it is started anew as prefill"
        hang.unlink()
        assert in_role(node, Role.PREFILL).pid != pid
        assert not is_alive(pid)


def test_a_worker_that_dies_in_the_change_is_replaced_by_one_in_the_new_role(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        pid = started(node, decode())
        crash = node.folder("w1") / "crash-switch"
        crash.touch()
        node.want(prefill())
        broken = node.wait("w1", WorkerPhase.BACKOFF)
        assert broken.reason.startswith("exited with code 137 while it was to become prefill")
        crash.unlink()
        assert in_role(node, Role.PREFILL).pid != pid


def test_an_agent_that_ends_in_the_middle_leaves_the_change_to_the_next(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, on_stop=OnStop.LEAVE) as node:
        pid = started(node, decode())
        hang = node.folder("w1") / "hang-switch"
        hang.touch()
        node.want(prefill())
        in_role(node, Role.DECODE, WorkerPhase.SWITCHING)
        node.close()
        hang.unlink()
        with NodeUnderTest(tmp_path) as after:
            assert in_role(after, Role.PREFILL).pid == pid
            assert wait_for(lambda: after.state.record("w1").spec.role is Role.PREFILL)  # type: ignore[union-attr]


def test_an_engine_that_can_not_switch_gets_a_new_process_once_it_is_drained(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        pid = started(node, decode(engine="rigid"))
        node.want(prefill(engine="rigid"))
        stopping = wait_for(lambda: (r := node.report("w1")) and r.pid != pid and r)
        assert stopping.attempts <= 1
        report = in_role(node, Role.PREFILL)
        assert (report.attempts, report.refused_role) == (1, None)


def test_a_worker_in_back_off_simply_starts_in_the_new_role(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, backoff_base_s=0.5) as node:
        started(node, decode())
        os.kill(node.report("w1").pid or 0, signal.SIGKILL)  # type: ignore[union-attr]
        node.wait("w1", WorkerPhase.BACKOFF)
        node.want(prefill())
        assert in_role(node, Role.PREFILL).refused_role is None


def test_a_worker_that_is_to_leave_is_not_switched_first(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        started(node, decode())
        node.want(prefill(desired=WorkerDesired.DRAIN))
        stopped = node.wait("w1", WorkerPhase.STOPPED)
        assert "drained" in stopped.reason
        assert "becomes" not in "".join(tail(node.state.log_file("w1")))
