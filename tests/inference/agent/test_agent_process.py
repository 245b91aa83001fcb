from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from inference.agent.workers.launcher import MARKER
from inference.broker.watchdog import EXIT_START_AGAIN
from inference.contracts.codec import decode
from inference.contracts.names import CONTROL_QUEUE, STREAM_FIELD, WINDOW_STREAM
from inference.contracts.states import DeviceKind, WorkerPhase
from inference.contracts.timings import Counter, Window
from inference.testing.valkey import ValkeyServer
from tests.inference.agent.agent_under_test import AgentUnderTest
from tests.inference.agent.node_under_test import ROOT, is_alive, processes_of, wait_for, worker

pytestmark = pytest.mark.chaos


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path / "valkey") as server:
        yield server


def test_a_spec_sent_to_the_nodes_queue_becomes_a_ready_worker_in_its_reports(
    tmp_path: Path, broker: ValkeyServer
) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        generation = agent.want(worker("w1", device="cpu-0"))
        ready = agent.wait("w1", WorkerPhase.READY)
        reports = agent.reports()
        assert reports[-1].observed_generation == generation
        assert [report.sequence for report in reports] == sorted({report.sequence for report in reports})
        assert len({report.boot_id for report in reports}) == 1
        device = next(device for device in reports[-1].devices if device.device_id == "cpu-0")
        assert device.kind is DeviceKind.CPU
        assert device.cores
        assert device.memory_used
        assert agent.signal(signal.SIGTERM) == 0
        assert ready.pid is not None
        assert not is_alive(ready.pid)
        assert processes_of(agent.state.root) == []
        last = agent.worker("w1")
        assert last is not None
        assert last.phase is WorkerPhase.STOPPED, "the last report tells that the workers were stopped"


def test_windows_reach_the_stream_stamped_with_the_nodes_clock(tmp_path: Path, broker: ValkeyServer) -> None:
    with AgentUnderTest(tmp_path, broker) as agent, redis.Redis.from_url(broker.url) as stream:
        agent.want(worker("w1"))
        before = int(time.time())
        entries = agent.wait_for(lambda: stream.xrange(WINDOW_STREAM, count=1))
        window = decode(entries[0][1][STREAM_FIELD.encode()], Window)
        assert window.source == "worker:w1"
        assert window.counters == {Counter.OUTPUT_TOKENS: 3}
        assert before - 1 <= window.second <= time.time(), "-1 in the batch means the second before now"


def test_nonsense_in_the_queue_is_refused_and_the_next_spec_is_taken(tmp_path: Path, broker: ValkeyServer) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.send("no json")
        agent.send('{"node_id": "another", "generation": 99, "workers": []}')
        agent.want(worker("w1"))
        agent.wait("w1", WorkerPhase.READY)
        log = agent.log.read_text()
        assert log.count("node spec is refused") == 2
        assert "the spec is for node 'another'" in log


def test_f13_f10_a_killed_agent_leaves_workers_and_the_next_adopts_stops_or_replaces_them(
    tmp_path: Path, broker: ValkeyServer
) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(worker("kept"), worker("deleted"), worker("replaced"), worker("dies"))
        old = {name: agent.wait(name, WorkerPhase.READY).pid for name in ("kept", "deleted", "replaced", "dies")}
        boot = agent.newest().boot_id  # type: ignore[union-attr]
        assert agent.signal(signal.SIGKILL) == -signal.SIGKILL
        assert all(is_alive(pid) for pid in old.values() if pid)
        os.kill(old["dies"] or 0, signal.SIGKILL)
        stray = subprocess.Popen(
            ["sleep", "600"], env={**os.environ, MARKER: str(agent.state.root)}, start_new_session=True
        )
        agent.want(worker("kept"), worker("replaced", incarnation="replaced-2"), worker("dies"))
        agent.start()
        agent.wait_for(lambda: (report := agent.newest()) and report.boot_id != boot)
        agent.wait_for(lambda: agent.worker("deleted") is None)
        kept = agent.wait("kept", WorkerPhase.READY)
        replaced = agent.wait_for(
            lambda: (w := agent.worker("replaced")) and w.incarnation == "replaced-2" and w.phase == "ready" and w
        )
        assert kept.pid == old["kept"]
        assert replaced.pid != old["replaced"]
        assert agent.wait("dies", WorkerPhase.READY).pid != old["dies"]
        assert stray.wait(10) == -signal.SIGKILL, "a process that no record names is a leftover"
        assert sorted(process.pid for process in processes_of(agent.state.root)) == sorted(
            pid
            for pid in (kept.pid, replaced.pid, agent.worker("dies").pid)
            if pid  # type: ignore[union-attr]
        )
        phases = {w.phase for r in agent.reports() if r.boot_id != boot for w in r.workers if w.worker_id == "kept"}
        assert phases == {WorkerPhase.READY}, "an adopted worker is never reported as anything it was not"
        assert agent.signal(signal.SIGTERM) == 0
        assert processes_of(agent.state.root) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_ctrl_c_and_quit_stop_the_workers_too(tmp_path: Path, broker: ValkeyServer, number: signal.Signals) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(worker("w1"))
        agent.wait("w1", WorkerPhase.READY)
        assert agent.signal(number) == 0
        assert processes_of(agent.state.root) == []


def test_workers_outlive_an_agent_that_is_told_to_leave_them(tmp_path: Path, broker: ValkeyServer) -> None:
    with AgentUnderTest(tmp_path, broker, TANDEM_AGENT_ON_STOP="leave") as agent:
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        assert agent.signal(signal.SIGTERM) == 0
        assert pid is not None
        assert is_alive(pid)
        agent.start()
        boot = agent.newest().boot_id  # type: ignore[union-attr]
        agent.wait_for(lambda: (report := agent.newest()) and report.boot_id != boot)
        assert agent.wait("w1", WorkerPhase.READY).pid == pid


def test_supervision_goes_on_while_redis_is_frozen(tmp_path: Path, broker: ValkeyServer) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        broker.freeze()
        try:
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: [p for p in processes_of(agent.state.root) if p.pid != pid])
        finally:
            broker.thaw()
        agent.wait_for(lambda: (w := agent.worker("w1")) and w.phase == "ready" and w.pid != pid)


def test_an_agent_that_starts_without_redis_goes_on_with_the_last_spec_and_can_be_stopped(
    tmp_path: Path, broker: ValkeyServer
) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(worker("w1"))
        agent.wait("w1", WorkerPhase.READY)
        assert agent.signal(signal.SIGTERM) == 0
        broker.stop()
        agent.start()
        assert wait_for(lambda: processes_of(agent.state.root))
        assert agent.signal(signal.SIGTERM) == 0
        assert processes_of(agent.state.root) == []


def test_reports_are_held_back_while_the_control_plane_is_far_behind(tmp_path: Path, broker: ValkeyServer) -> None:
    with (
        AgentUnderTest(
            tmp_path, broker, TANDEM_AGENT_REPORT_BACKLOG="4", TANDEM_AGENT_REPORT_INTERVAL_S="0.05"
        ) as agent,
        redis.Redis.from_url(broker.url) as queue,
    ):
        agent.wait_for(lambda: "wait for the control plane already" in agent.log.read_text())
        assert queue.llen(CONTROL_QUEUE) == 4
        queue.delete(CONTROL_QUEUE)
        agent.wait_for(lambda: "reports arrive again" in agent.log.read_text())


def test_f12_a_consumer_that_takes_nothing_ends_the_agent_and_spares_the_workers(
    tmp_path: Path, broker: ValkeyServer
) -> None:
    with AgentUnderTest(tmp_path, broker, TANDEM_AGENT_WATCHDOG_S="1.5") as agent:
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        assert pid is not None
        time.sleep(2.0)
        assert agent.is_running, "an empty queue is no reason"
        (agent.state.root / "hold").touch()  # see agent_process
        for _ in range(4):
            agent.want(worker("w1"))
        assert agent.wait_end() == EXIT_START_AGAIN
        assert is_alive(pid)
        (agent.state.root / "hold").unlink()
        agent.start()
        agent.wait_for(lambda: (report := agent.newest()) and report.observed_generation == 5)
        assert agent.wait("w1", WorkerPhase.READY).pid == pid


def test_two_agents_on_one_folder_are_refused(tmp_path: Path, broker: ValkeyServer) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.wait_for(agent.newest)
        second = subprocess.run(
            [sys.executable, "-m", "inference.agent", "run", "--data", str(agent.state.root)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert second.returncode == 73
        assert "another agent already runs on" in second.stderr


def test_the_agent_imports_neither_torch_nor_the_database_layer(tmp_path: Path, broker: ValkeyServer) -> None:
    program = (
        "import sys, os\n"
        "from inference.agent import main, node\n"
        "from inference.agent.app import make_app, make_worker\n"
        "app = make_app('redis://127.0.0.1:1/0', 'n')\n"
        "make_worker(app, 'n')\n"
        "print([name for name in ('torch', 'transformers', 'django.db') if name in sys.modules])\n"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "controlplane.config.settings"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip().splitlines()[-1:] == ["[]"], done.stderr
