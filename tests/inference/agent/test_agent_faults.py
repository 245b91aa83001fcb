"""What ends, cuts off or lies to an agent, with its workers up: F10, F12, F13, and a broker in the wrong hands."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import kombu
import msgspec
import psutil
import pytest
import redis

from inference.broker.watchdog import EXIT_START_AGAIN
from inference.contracts.codec import encode_text
from inference.contracts.names import TASK_APPLY_NODE_SPEC, node_queue
from inference.contracts.reports import WorkerReport
from inference.contracts.specs import NodeSpec
from inference.contracts.states import Role, WorkerPhase
from inference.testing.valkey import ValkeyServer
from tests.inference.agent.agent_under_test import AgentUnderTest
from tests.inference.agent.node_under_test import NODE, is_alive, processes_of, wait_for, worker

pytestmark = pytest.mark.chaos

THREE = ("w1", "w2", "w3")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path / "valkey") as server:
        yield server


def all_ready(agent: AgentUnderTest, *names: str) -> dict[str, WorkerReport]:
    return {name: agent.wait(name, WorkerPhase.READY) for name in names}


def places(reports: dict[str, WorkerReport]) -> dict[str, tuple[int | None, int | None]]:
    """Process and port of each worker."""
    return {name: (report.pid, report.http.port if report.http else None) for name, report in reports.items()}


def listening(pid: int) -> set[int]:
    connections = psutil.Process(pid).net_connections("tcp")
    return {connection.laddr.port for connection in connections if connection.status == psutil.CONN_LISTEN}


# -- F13: the agent ends, its workers do not ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "end"),
    [
        ({"TANDEM_AGENT_ON_STOP": "leave"}, lambda agent: agent.signal(signal.SIGTERM)),
        ({}, lambda agent: agent.signal(signal.SIGKILL)),  # what the kernel does to a process when memory runs out
        ({}, AgentUnderTest.kill_group),
    ],
    ids=["told to leave them", "killed as when memory runs out", "killed with its whole group"],
)
def test_f13_workers_outlive_their_agent_and_are_what_they_were_within_a_heartbeat_of_the_next(
    tmp_path: Path, broker: ValkeyServer, environment: dict[str, str], end: Callable[[AgentUnderTest], int]
) -> None:
    with AgentUnderTest(tmp_path, broker, **environment) as agent:
        agent.want(*(worker(name) for name in THREE))
        before = places(all_ready(agent, *THREE))
        boot = agent.newest().boot_id  # type: ignore[union-attr]
        end(agent)
        assert all(is_alive(pid) for pid, _ in before.values() if pid)
        agent.start()
        first = agent.wait_for(lambda: (report := agent.newest()) and report.boot_id != boot and report)
        assert {w.worker_id: w.phase for w in first.workers} == dict.fromkeys(THREE, WorkerPhase.READY)
        assert places({w.worker_id: w for w in first.workers}) == before
        assert all(listening(pid) == {port} for pid, port in before.values() if pid)
        assert sorted(p.pid for p in processes_of(agent.state.root)) == sorted(pid for pid, _ in before.values() if pid)
        assert agent.signal(signal.SIGKILL) == -signal.SIGKILL


def test_f13_a_stopped_agent_leaves_no_process_and_no_port(tmp_path: Path, broker: ValkeyServer) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(*(worker(name, "family") for name in THREE))
        before = places(all_ready(agent, *THREE))
        assert agent.signal(signal.SIGTERM) == 0
        assert processes_of(agent.state.root) == []
        open_ports = {c.laddr.port for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
        assert not open_ports & {port for _, port in before.values()}


def test_f13_a_pid_that_now_belongs_to_another_process_is_left_alone(tmp_path: Path, broker: ValkeyServer) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        assert pid is not None
        agent.signal(signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        record = agent.state.record("w1")
        assert record is not None
        agent.state.save_record(msgspec.structs.replace(record, pid=os.getpid()))  # this test is the stranger
        agent.want()
        agent.start()
        agent.wait_for(lambda: (r := agent.newest()) and r.observed_generation == 2 and not r.workers)


def test_a_change_of_role_outlives_the_agent_that_ordered_it(tmp_path: Path, broker: ValkeyServer) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(worker("w1", role=Role.DECODE))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        agent.want(worker("w1", role=Role.PREFILL))
        agent.wait_for(lambda: (w := agent.worker("w1")) and (w.role, w.phase) == (Role.PREFILL, WorkerPhase.READY))
        boot = agent.newest().boot_id  # type: ignore[union-attr]
        agent.signal(signal.SIGKILL)
        agent.start()
        agent.wait_for(lambda: (report := agent.newest()) and report.boot_id != boot)
        after = agent.wait("w1", WorkerPhase.READY)
        assert (after.role, after.pid) == (Role.PREFILL, pid)


# -- F12: the broker goes away and comes back -----------------------------------------------------------------------


def away_for_ten_seconds(broker: ValkeyServer) -> None:
    broker.stop()
    time.sleep(10)
    broker.start()


def twice_within_three_seconds(broker: ValkeyServer) -> None:
    broker.kill()
    time.sleep(1)
    broker.start()
    time.sleep(0.5)
    broker.kill()
    time.sleep(1)
    broker.start()


@pytest.mark.parametrize("outage", [away_for_ten_seconds, twice_within_three_seconds])
def test_f12_what_was_queued_and_what_comes_after_is_done_once_each_and_workers_do_not_notice(
    tmp_path: Path, broker: ValkeyServer, outage: Callable[[ValkeyServer], None]
) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        hold = agent.state.root / "hold"  # see agent_process
        hold.touch()
        queued = [agent.want(worker("w1"), worker(f"w{number}")) for number in (2, 3, 4)]
        outage(broker)
        hold.unlink()
        agent.wait("w4", WorkerPhase.READY)
        later = agent.want(worker("w1"), worker("w5"))
        agent.wait("w5", WorkerPhase.READY)
        agent.wait_for(lambda: [w.worker_id for w in agent.newest().workers] == ["w1", "w5"])  # type: ignore[union-attr]
        assert agent.wait("w1", WorkerPhase.READY).pid == pid
        log = agent.log.read_text()
        for generation in (*queued, later):
            done = [line for line in log.splitlines() if f"generation={generation} " in line and "new=True" in line]
            assert len(done) == 1, f"generation {generation} is done exactly once: {done}"
        assert log.count("reports do not arrive") <= 3, "one line per outage, not one per try"
        boot = agent.newest().boot_id  # type: ignore[union-attr]
        assert {report.boot_id for report in agent.reports()} == {boot}, "the agent did not need to start again"


def test_f12_a_broker_that_lost_its_data_is_served_again_and_old_reports_do_not_come_late(
    tmp_path: Path, broker: ValkeyServer
) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        broker.stop()
        time.sleep(2)
        broker.start(empty=True)
        generation = agent.want(worker("w1"), worker("w2"))
        agent.wait("w2", WorkerPhase.READY)
        assert agent.newest().observed_generation == generation  # type: ignore[union-attr]
        assert agent.wait("w1", WorkerPhase.READY).pid == pid
        gap = [report.sequence for report in agent.reports()]
        assert gap == list(range(gap[0], gap[0] + len(gap)))


# -- F10: a node that was cut off comes back ------------------------------------------------------------------------


def test_f10_a_node_that_was_cut_off_ends_what_was_deleted_meanwhile_and_keeps_what_is_still_wanted(
    tmp_path: Path, broker: ValkeyServer
) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(worker("kept"), worker("deleted"), worker("moved", device="gpu-0"))
        before = places(all_ready(agent, "kept", "deleted", "moved"))
        broker.freeze()
        time.sleep(2)
        assert all(is_alive(pid) for pid, _ in before.values() if pid), "to be cut off is no reason to stop serving"
        broker.thaw()
        agent.want(worker("kept"), worker("heir", device="gpu-0"))
        agent.wait("heir", WorkerPhase.READY)
        agent.wait_for(lambda: {w.worker_id for w in agent.newest().workers} == {"kept", "heir"})  # type: ignore[union-attr]
        after = places(all_ready(agent, "kept", "heir"))
        assert after["kept"] == before["kept"]
        assert not any(is_alive(before[name][0] or 0) for name in ("deleted", "moved"))
        assert len(processes_of(agent.state.root)) == 2, "never two live workers for one place"


# -- holding the broker must not mean running commands --------------------------------------------------------------


class Exploit:
    """Runs a command wherever it is unpickled."""

    def __init__(self, command: str) -> None:
        self._command = command

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self._command,)


def test_whoever_holds_the_broker_runs_nothing_on_a_node(tmp_path: Path, broker: ValkeyServer) -> None:
    planted = tmp_path / "planted"
    command = f"touch {planted}"
    with (
        AgentUnderTest(tmp_path, broker) as agent,
        kombu.Connection(broker.url) as connection,
        redis.Redis.from_url(broker.url) as queue,
    ):
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        headers = {"lang": "py", "task": TASK_APPLY_NODE_SPEC, "id": "x", "argsrepr": "", "kwargsrepr": ""}
        with connection.Producer() as producer:
            for body, kind in (
                (pickle.dumps(([Exploit(command)], {}, {})), "application/x-python-serialize"),
                (pickle.dumps(([Exploit(command)], {}, {})), "application/data"),
                (b"no json", "application/json"),
                (b"5", "application/json"),
                (b'{"args": 1}', "application/json"),
                (b"[" * 100_000, "application/json"),
            ):
                producer.publish(
                    body,
                    routing_key=node_queue(NODE),
                    content_type=kind,
                    content_encoding="binary",
                    headers=headers,
                )
            producer.publish(
                ([command], {}, {}),
                routing_key=node_queue(NODE),
                serializer="json",
                headers={**headers, "task": ["a list"]},
            )
            for name in ("os.system", "subprocess.run", "builtins.eval", "inference.agent.main.main", "celery.chord"):
                producer.publish(
                    ([command], {}, {}),
                    routing_key=node_queue(NODE),
                    serializer="json",
                    headers={**headers, "task": name},
                )
        for junk in (b"junk", b"5", b"{}", b'{"body": 1, "properties": 2}', b"\xff\xfe", b"[" * 100_000):
            queue.lpush(node_queue(NODE), junk)
        hostile = worker("w2", f"$({command}); `{command}` | sh", incarnation="w2-1")
        for spec in (
            worker("w2", engine="sh"),
            worker("w2", f"--exec={command}"),
            worker(f"$({command})"),
            worker("../../" + planted.name),
        ):
            agent.send(encode_text(NodeSpec(node_id=NODE, generation=50, workers=(spec,))))
        agent._app.control.broadcast("shutdown")
        agent._app.control.broadcast("pool_restart", arguments={"modules": ["os"], "reload": True})
        last = NodeSpec(node_id=NODE, generation=60, workers=(worker("w1"), hostile))
        agent.send(encode_text(last))
        agent.wait("w2", WorkerPhase.READY)
        wait_for(lambda: queue.llen(node_queue(NODE)) == 0)
        assert agent.wait("w1", WorkerPhase.READY).pid == pid
        assert agent.is_running
        assert not planted.exists()
        assert agent.newest().refused_spec == ""  # type: ignore[union-attr]
        assert agent.log.read_text().count("node spec is refused") == 4


def test_a_consumer_that_breaks_down_after_all_spares_the_workers(tmp_path: Path, broker: ValkeyServer) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        assert pid is not None
        (agent.state.root / "break").touch()  # see agent_process
        agent.want(worker("w1"))
        assert agent.wait_end() == EXIT_START_AGAIN
        assert is_alive(pid)
        (agent.state.root / "break").unlink()
        boot = agent.newest().boot_id  # type: ignore[union-attr]
        agent.start()
        agent.wait_for(lambda: (report := agent.newest()) and report.boot_id != boot)
        assert agent.wait("w1", WorkerPhase.READY).pid == pid


def test_a_refused_spec_is_told_in_the_report(tmp_path: Path, broker: ValkeyServer) -> None:
    with AgentUnderTest(tmp_path, broker) as agent:
        agent.want(worker("w1"))
        agent.wait("w1", WorkerPhase.READY)
        agent.want(worker("w1"), worker("w2", engine="warp"))
        told = agent.wait_for(lambda: (report := agent.newest()) and report.refused_spec and report)
        assert told.refused_spec.startswith("generation 2 is refused: worker w2: engine 'warp' is not known")
        assert (told.observed_generation, [w.worker_id for w in told.workers]) == (1, ["w1"])
