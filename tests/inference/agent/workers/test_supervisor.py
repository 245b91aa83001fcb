from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from inference.agent.control.acceptance import SpecRefused
from inference.agent.engines.command import Command, Engine, EngineRegistry, LaunchRequest
from inference.contracts.reports import Address, WorkerReport
from inference.contracts.specs import NodeSpec
from inference.contracts.states import WorkerDesired, WorkerPhase
from tests.inference.agent.node_under_test import (
    NODE,
    NodeUnderTest,
    is_alive,
    processes_of,
    wait_for,
    worker,
)


def test_a_listed_worker_becomes_ready_and_is_fully_reported(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1"))
        report = node.wait("w1", WorkerPhase.READY)
        assert report.incarnation == "w1-1"
        assert report.http is not None
        assert report.http.host == "127.0.0.1"
        assert report.transfer == Address(host="127.0.0.1", port=4242)
        assert report.fingerprint == "stub"
        assert report.load is not None
        assert report.load.kv_blocks_total == 10
        assert report.attempts == 1
        assert report.log_tail[-1].endswith("starts")
        assert node.supervisor.observed_generation == 1
        assert node.supervisor.ready().keys() == {"w1"}
        assert node.supervisor.holders() == {"cpu-w1": report.pid}


def test_a_worker_that_is_no_longer_listed_is_ended_and_vanishes_from_reports(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1"), worker("w2"))
        pid = node.wait("w1", WorkerPhase.READY).pid
        other = node.wait("w2", WorkerPhase.READY).pid
        node.want(worker("w2"))
        wait_for(lambda: node.report("w1") is None)
        assert pid is not None
        assert not is_alive(pid)
        kept = node.wait("w2", WorkerPhase.READY)
        assert kept.pid == other


def test_a_stopped_worker_is_reported_until_it_is_no_longer_listed(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1"))
        node.wait("w1", WorkerPhase.READY)
        node.want(worker("w1", desired=WorkerDesired.STOP))
        report = node.wait("w1", WorkerPhase.STOPPED)
        assert report.pid is None
        assert report.reason == "is wanted to stop"
        node.want()
        wait_for(lambda: node.report("w1") is None)


def test_a_new_incarnation_starts_only_after_the_old_process_is_gone(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, stop_deadline_s=0.5) as node:
        node.want(worker("w1", "deaf"))
        old = node.wait("w1", WorkerPhase.READY).pid
        assert old is not None
        node.want(worker("w1", "ok", incarnation="w1-2"))
        stopping = node.wait("w1", WorkerPhase.STOPPING)
        assert stopping.incarnation == "w1-1"
        new = wait_for(lambda: (report := node.report("w1")) and report.incarnation == "w1-2" and report)
        assert not is_alive(old)
        assert node.wait("w1", WorkerPhase.READY).incarnation == new.incarnation


def test_a_device_is_given_on_only_when_its_holder_is_gone(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, stop_deadline_s=0.5) as node:
        node.want(worker("w1", "deaf", device="gpu-0"))
        old = node.wait("w1", WorkerPhase.READY).pid
        assert old is not None
        node.want(worker("w2", device="gpu-0"))
        waiting = wait_for(lambda: node.report("w2"))
        assert waiting.phase is WorkerPhase.STARTING
        assert waiting.pid is None
        assert "waits for device gpu-0, which worker w1 holds" in node.report("w2").reason  # type: ignore[union-attr]
        node.wait("w2", WorkerPhase.READY)
        assert not is_alive(old)


def test_drain_waits_for_what_runs_and_then_stops(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1"))
        pid = node.wait("w1", WorkerPhase.READY).pid
        busy = node.folder("w1") / "busy"
        busy.touch()
        wait_for(lambda: node.report("w1").load.running == 1)  # type: ignore[union-attr]
        node.want(worker("w1", desired=WorkerDesired.DRAIN, drain_deadline_s=60))
        report = node.wait("w1", WorkerPhase.DRAINING)
        assert report.pid == pid
        assert report.drain_left_s is not None
        assert 0 < report.drain_left_s <= 60
        busy.unlink()
        done = node.wait("w1", WorkerPhase.STOPPED)
        assert "drained" in done.reason


def test_a_drain_ends_at_its_deadline(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1", "busy"))
        node.wait("w1", WorkerPhase.READY)
        node.want(worker("w1", "busy", desired=WorkerDesired.DRAIN, drain_deadline_s=0.5))
        node.wait("w1", WorkerPhase.DRAINING)
        assert node.wait("w1", WorkerPhase.STOPPED).reason == "the drain deadline has passed"


def test_a_drain_can_be_called_off(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1", "busy"))
        pid = node.wait("w1", WorkerPhase.READY).pid
        node.want(worker("w1", "busy", desired=WorkerDesired.DRAIN))
        node.wait("w1", WorkerPhase.DRAINING)
        node.want(worker("w1", "busy"))
        report = node.wait("w1", WorkerPhase.READY)
        assert report.pid == pid
        assert report.drain_left_s is None


def test_a_worker_that_has_not_served_is_not_drained_but_stopped(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1", "loading"))
        node.wait("w1", WorkerPhase.LOADING)
        node.want(worker("w1", "loading", desired=WorkerDesired.DRAIN))
        node.wait("w1", WorkerPhase.STOPPED)


def test_f11_out_of_memory_at_every_start_ends_in_failed_with_the_last_log_lines(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, max_attempts=3) as node:
        node.want(worker("bad", "oom"), worker("good"))
        backing_off = node.wait("bad", WorkerPhase.BACKOFF)
        assert backing_off.attempts >= 1
        assert backing_off.next_start_s is not None
        failed = node.wait("bad", WorkerPhase.FAILED)
        assert failed.attempts == 3
        assert failed.reason == "exited with code 1: RuntimeError: out of memory (given up after 3 starts)"
        assert failed.log_tail[-1] == "RuntimeError: out of memory"
        assert failed.next_start_s is None
        assert node.wait("good", WorkerPhase.READY).attempts == 1


def test_f11_a_worker_that_fails_three_times_and_then_works_becomes_ready(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1", "oom-times=3"))
        assert node.wait("w1", WorkerPhase.READY).attempts == 4


def test_f11_a_fatal_error_is_not_retried_and_a_manual_retry_tries_again(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1", "fatal"))
        failed = node.wait("w1", WorkerPhase.FAILED)
        assert failed.attempts == 1
        assert failed.reason == "exited with code 3: no such model: /nowhere (a restart can't mend this)"
        node.want(worker("w1", "ok", restart=1))
        assert node.wait("w1", WorkerPhase.READY).attempts == 1


def test_a_failed_worker_stays_failed_over_a_restart_of_the_agent(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1", "fatal"))
        node.wait("w1", WorkerPhase.FAILED)
    with NodeUnderTest(tmp_path) as node:
        failed = node.wait("w1", WorkerPhase.FAILED)
        assert "no such model" in failed.reason


def test_steady_service_forgets_earlier_failures(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, steady_s=0.2) as node:
        node.want(worker("w1", "oom-times=2"))
        node.wait("w1", WorkerPhase.READY)
        wait_for(lambda: node.report("w1").attempts == 1)  # type: ignore[union-attr]


def test_a_spec_with_an_unknown_engine_is_refused_as_a_whole_and_told_until_a_better_one_comes(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1"))
        pid = node.wait("w1", WorkerPhase.READY).pid
        with pytest.raises(SpecRefused, match=r"engine 'warp' is not known to this agent \(known: native, rigid\)"):
            node.want(worker("w2", engine="warp"), worker("w3"))
        assert node.supervisor.refused_spec.startswith("generation 2 is refused: worker w2: engine 'warp'")
        assert node.wait("w1", WorkerPhase.READY).pid == pid, "what was wanted before stays wanted"
        assert node.report("w3") is None
        node.want(worker("w1"))
        assert node.supervisor.refused_spec == ""


def test_a_stuck_engine_is_killed_and_started_again(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1"))
        old = node.wait("w1", WorkerPhase.READY).pid
        stuck = node.folder("w1") / "stuck"
        stuck.touch()
        backing_off = node.wait("w1", WorkerPhase.BACKOFF)
        assert backing_off.reason == "the engine loop is stuck"
        stuck.unlink()
        assert node.wait("w1", WorkerPhase.READY).pid != old


def test_a_hung_worker_is_replaced_and_delays_no_other(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, probe_timeout_s=1.5) as node:
        node.want(worker("w1"))
        old = node.wait("w1", WorkerPhase.READY).pid
        hang = node.folder("w1") / "hang"
        hang.touch()
        node.want(worker("w1"), worker("w2"))
        node.wait("w2", WorkerPhase.READY)
        before = node.report("w1")
        assert before is not None
        assert before.pid == old
        backing_off = node.wait("w1", WorkerPhase.BACKOFF)
        assert "did not answer 4 probes in a row" in backing_off.reason
        hang.unlink()
        assert node.wait("w1", WorkerPhase.READY).pid != old


def test_load_is_unknown_while_a_worker_does_not_answer(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, probe_failures=1000) as node:
        node.want(worker("w1"))
        node.wait("w1", WorkerPhase.READY)
        (node.folder("w1") / "hang").touch()
        wait_for(lambda: node.report("w1").load is None)  # type: ignore[union-attr]
        report = node.report("w1")
        assert report is not None
        assert report.phase is WorkerPhase.READY
        assert report.reason.startswith("has missed")


def test_a_worker_that_never_answers_hits_the_start_deadline(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, start_deadline_s=0.5, max_attempts=2) as node:
        node.want(worker("w1", "silent"))
        assert "was not ready within 0.5 s" in node.wait("w1", WorkerPhase.FAILED).reason


@pytest.mark.parametrize("how", ["killed", "stopped", "deaf"])
def test_what_a_worker_started_is_ended_with_it_children_orphans_and_grandchildren(tmp_path: Path, how: str) -> None:
    script = "family;deaf" if how == "deaf" else "family"
    with NodeUnderTest(tmp_path, stop_deadline_s=0.5) as node:
        node.want(worker("w1", script))
        pid = node.wait("w1", WorkerPhase.READY).pid
        assert pid is not None
        family = {int(line) for line in (node.folder("w1") / "family-pids").read_text().split()}
        family |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
        assert len(family) == 4
        if how == "killed":
            os.kill(pid, signal.SIGKILL)
        else:
            node.want()
        wait_for(lambda: not any(is_alive(member) for member in family))
        if how == "killed":
            assert node.wait("w1", WorkerPhase.BACKOFF).reason.startswith("was ended by SIGKILL")
            node.wait("w1", WorkerPhase.READY)


def test_f28_a_suspended_worker_is_told_apart_from_a_dead_one_and_replaced(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, suspended_s=0.5, probe_timeout_s=60) as node:
        node.want(worker("w1"))
        pid = node.wait("w1", WorkerPhase.READY).pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        suspended = wait_for(lambda: (r := node.report("w1")) and r.reason and r)
        assert suspended.reason == "is suspended (SIGSTOP or a debugger): it lives but does not run"
        assert (suspended.phase, suspended.pid) == (WorkerPhase.READY, pid)
        broken = node.wait("w1", WorkerPhase.BACKOFF)
        assert broken.reason == "is suspended (SIGSTOP or a debugger): it lives but does not run, for 0.5 s now"
        assert node.wait("w1", WorkerPhase.READY).pid != pid
        assert not is_alive(pid)


def test_f28_a_worker_that_goes_on_in_time_is_kept(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, suspended_s=30, probe_timeout_s=60) as node:
        node.want(worker("w1"))
        pid = node.wait("w1", WorkerPhase.READY).pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: node.report("w1").reason)  # type: ignore[union-attr]
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: not node.report("w1").reason)  # type: ignore[union-attr]
        assert node.wait("w1", WorkerPhase.READY).pid == pid


def test_f28_a_suspended_worker_that_is_no_longer_wanted_is_ended_too(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, suspended_s=30, stop_deadline_s=0.3) as node:
        node.want(worker("w1"))
        pid = node.wait("w1", WorkerPhase.READY).pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        node.want()
        wait_for(lambda: node.report("w1") is None)
        assert not is_alive(pid)


def test_closing_stops_every_worker_and_reports_them_stopped(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1"), worker("w2", "oom"))
        node.wait("w1", WorkerPhase.READY)
        node.close()
        assert {report.phase for report in node.supervisor.reports()} == {WorkerPhase.STOPPED}
        assert node.report("w1").reason == "its agent is stopping"  # type: ignore[union-attr]
        assert processes_of(node.state.root) == []
    with NodeUnderTest(tmp_path) as node:
        node.wait("w1", WorkerPhase.READY)


def test_specs_of_older_generations_and_other_nodes_change_nothing(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1"))
        node.want(worker("w1"))
        node.wait("w1", WorkerPhase.READY)
        assert not node.supervisor.submit(NodeSpec(node_id=NODE, generation=1, workers=()))
        assert not node.supervisor.submit(NodeSpec(node_id=NODE, generation=2, workers=()))
        with pytest.raises(SpecRefused, match="is for node 'other'"):
            node.supervisor.submit(NodeSpec(node_id="other", generation=9, workers=()))
        twice = NodeSpec(node_id=NODE, generation=9, workers=(worker("w1"), worker("w1")))
        with pytest.raises(SpecRefused, match="listed twice"):
            node.supervisor.submit(twice)
        escaping = NodeSpec(node_id=NODE, generation=9, workers=(worker("../w1"),))
        with pytest.raises(SpecRefused, match="worker id"):
            node.supervisor.submit(escaping)
        assert node.wait("w1", WorkerPhase.READY)
        assert node.state.spec is not None
        assert node.state.spec.generation == 2


def test_a_node_without_any_spec_leaves_everything_as_it_is(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        assert node.supervisor.reports() == ()
        wait_for(lambda: node.supervisor.settled)
        assert node.supervisor.observed_generation == 0


def test_the_worker_sees_only_the_allowed_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:password@127.0.0.1/0")
    monkeypatch.setenv("TANDEM_JOIN_TOKEN", "token")
    monkeypatch.setenv("HF_HOME", "/models")
    with NodeUnderTest(tmp_path) as node:
        node.want(worker("w1"))
        seen = psutil.Process(node.wait("w1", WorkerPhase.READY).pid).environ()
    assert seen["HF_HOME"] == "/models"
    assert not {"REDIS_URL", "TANDEM_JOIN_TOKEN"} & seen.keys()
    assert "password" not in "".join(seen.values())


def test_f13_fifty_starts_and_stops_leave_no_process_no_zombie_and_no_port(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    ports: set[int] = set()
    with NodeUnderTest(tmp_path, engines=_listeners(), tick_s=0.01) as node:
        for round_number in range(50):
            node.want(worker("w1", incarnation=f"w1-{round_number}"))
            report = wait_for(lambda: (report := node.report("w1")) and report.http and report)
            ports.add(report.http.port)
            node.want()
            wait_for(lambda: node.report("w1") is None)
        assert processes_of(node.state.root) == []
        assert set(psutil.Process().children(recursive=True)) <= before, "neither a process nor a zombie"
        assert list((node.state.root / "workers").glob("*/record.json")) == []
    listening = {c.laddr.port for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert ports
    assert not ports & listening


def test_f40_workers_started_together_have_ports_of_their_own_and_the_report_names_the_real_ones(
    tmp_path: Path,
) -> None:
    names = [f"w{number}" for number in range(8)]
    with NodeUnderTest(tmp_path) as node, _foreign_listeners(200) as foreign:
        node.want(*(worker(name) for name in names))
        first = {name: node.wait(name, WorkerPhase.READY, within_s=60) for name in names}
        for report in first.values():
            os.kill(report.pid or 0, signal.SIGKILL)
        again = {
            name: wait_for(lambda name=name: _ready_anew(node.report(name), first[name]), within_s=60) for name in names
        }
        ports = {report.http.port for report in again.values()}
        assert len(ports) == 8
        assert not ports & foreign
        assert all(report.attempts == 2 for report in again.values()), "one start and one kill: no collision counted"
        for report in again.values():
            listening = {
                connection.laddr.port
                for connection in psutil.Process(report.pid).net_connections()
                if connection.status == psutil.CONN_LISTEN
            }
            assert listening == {report.http.port}
        assert node.supervisor.ready().keys() == set(names)
        assert {address.port for address in node.supervisor.ready().values()} == ports


@contextlib.contextmanager
def _foreign_listeners(count: int) -> Iterator[set[int]]:
    """Somebody else's listeners where the kernel picks free ports from."""
    with contextlib.ExitStack() as stack:
        yield {stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)}


def _ready_anew(report: WorkerReport | None, before: WorkerReport) -> WorkerReport | None:
    anew = report is not None and report.phase is WorkerPhase.READY and report.pid != before.pid
    return report if anew else None


def test_one_workers_broken_files_do_not_stop_the_others(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path) as node:
        (tmp_path / "workers" / "bad").write_text("a file where a folder should be")
        node.want(worker("bad"), worker("good"))
        node.wait("good", WorkerPhase.READY)
        assert "could not be started" in node.wait("bad", WorkerPhase.FAILED).reason


#: What a worker does at its start and nothing else: it binds a port and says which.
_LISTENER = """
import json, os, socket, sys
spec, said = json.load(open(sys.argv[1])), sys.argv[2]
port = socket.create_server(("127.0.0.1", 0))
http = {"host": "127.0.0.1", "port": port.getsockname()[1]}
mine = {"worker_id": spec["worker_id"], "incarnation": spec["incarnation"], "pid": os.getpid()}
with open(said + ".new", "w") as file:
    json.dump({**mine, "http": http, "transfer": None}, file)
os.rename(said + ".new", said)
port.accept()
os.read(os.pipe()[0], 1)
"""


def _listeners() -> EngineRegistry:
    def command(request: LaunchRequest) -> Command:
        program = (sys.executable, "-S", "-E", "-c", _LISTENER)
        return Command(argv=(*program, str(request.spec_file), str(request.announce_file)))

    return EngineRegistry({"native": Engine(command)})
