from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from inference.agent.config import Settings
from inference.contracts.auth import sign_message, verify_message
from inference.contracts.codec import decode, encode_text
from inference.contracts.names import TASK_APPLY_NODE_SPEC, TASK_RECORD_NODE_REPORT, TASK_SEND_LOG
from inference.contracts.reports import LogReply, NodeReport, NodeWelcome, WorkerReport
from inference.contracts.specs import LinkSpec, LogRequest, NodeSpec, WeightsSpec, WorkerSpec
from inference.contracts.states import FetchState, Role, WorkerDesired, WorkerPhase
from inference.testing.simulated_node import Sent, SimulatedNode
from tests.inference.agent.node_under_test import worker

KEY = "k" * 64
WELCOME = NodeWelcome(
    node_id="n-1", name="sim-1", redis_url="", cluster_secret="s", report_interval_s=600.0, node_key=KEY
)
QUICK = Settings(
    tick_s=0.01, probe_interval_s=0.01, backoff_base_s=0.05, debounce_s=0.01, probe_failures=3, disk_floor_bytes=0
)


class Owned:
    """A node and what it has sent."""

    def __init__(self, **behaviour: Any) -> None:
        self.node = SimulatedNode(WELCOME, devices=2, settings=QUICK)
        for name, value in behaviour.items():
            setattr(self.node.behaviour, name, value)
        self.generation = 0
        self.sent: list[Sent] = []

    def want(self, *workers: WorkerSpec, **beside: Any) -> None:
        self.generation += 1
        spec = NodeSpec(node_id="n-1", generation=self.generation, workers=workers, **beside)
        self.tell(TASK_APPLY_NODE_SPEC, spec)

    def tell(self, task: str, message: Any) -> None:
        text = encode_text(message)
        self.node.receive(task, [text, sign_message(KEY, task, text)])

    def until(self, condition: Callable[[], Any], within_s: float = 5.0) -> Any:
        deadline = time.monotonic() + within_s
        while not (value := condition()):
            assert time.monotonic() < deadline, self.newest()
            if time.monotonic() >= self.node.due:
                self.sent += self.node.step()
            time.sleep(0.001)
        return value

    def reports(self) -> list[NodeReport]:
        return [decode(sent.body[0], NodeReport) for sent in self.sent if sent.task == TASK_RECORD_NODE_REPORT]

    def newest(self) -> NodeReport | None:
        return next(reversed(self.reports()), None)

    def worker(self, worker_id: str) -> WorkerReport | None:
        report = self.newest()
        return next((w for w in report.workers if w.worker_id == worker_id), None) if report else None

    def becomes(self, worker_id: str, phase: WorkerPhase) -> WorkerReport:
        return self.until(lambda: (w := self.worker(worker_id)) and w.phase is phase and w)


def on_gpu(worker_id: str, index: int = 0, **changes: Any) -> WorkerSpec:
    return worker(worker_id, device=f"gpu-{index}", **changes)


def test_a_worker_is_ready_at_once_and_its_report_is_signed_as_a_real_agents_is() -> None:
    owned = Owned()
    owned.want(on_gpu("w1"))
    ready = owned.becomes("w1", WorkerPhase.READY)
    assert ready.http is not None
    assert ready.load is not None
    report = owned.newest()
    assert report is not None
    assert (report.node_id, report.hostname, report.observed_generation) == ("n-1", "sim-1", 1)
    assert [device.memory_used for device in report.devices] == [72_000_000_000, 0], "the worker's device is in use"
    for sent in owned.sent:
        assert verify_message(KEY, TASK_RECORD_NODE_REPORT, *sent.body)
    assert [r.sequence for r in owned.reports()] == list(range(1, len(owned.reports()) + 1))


def test_specs_and_requests_without_the_right_code_change_nothing() -> None:
    owned = Owned()
    text = encode_text(NodeSpec(node_id="n-1", generation=9, workers=(on_gpu("evil"),)))
    owned.node.receive(TASK_APPLY_NODE_SPEC, [text])
    owned.node.receive(TASK_APPLY_NODE_SPEC, [text, "0" * 64])
    owned.until(owned.newest)
    assert owned.node.refused == 2
    assert owned.node.workers == ()


def test_loading_takes_as_long_as_it_is_told_and_every_phase_is_reported() -> None:
    owned = Owned(load_s=0.2)
    owned.want(on_gpu("w1"))
    owned.becomes("w1", WorkerPhase.LOADING)
    owned.becomes("w1", WorkerPhase.READY)


def test_a_drain_lasts_as_long_as_it_is_told_and_can_be_taken_back() -> None:
    owned = Owned()
    owned.want(on_gpu("w1"))
    owned.becomes("w1", WorkerPhase.READY)
    owned.node.behaviour.drain_s = 600.0
    owned.want(on_gpu("w1", desired=WorkerDesired.DRAIN))
    assert owned.becomes("w1", WorkerPhase.DRAINING).drain_left_s is not None
    owned.want(on_gpu("w1"))
    owned.becomes("w1", WorkerPhase.READY)
    owned.node.behaviour.drain_s = 0.05
    owned.want(on_gpu("w1", desired=WorkerDesired.DRAIN))
    owned.becomes("w1", WorkerPhase.STOPPED)
    owned.want()
    owned.until(lambda: (report := owned.newest()) and report.workers == ())


def test_a_role_is_switched_in_place_or_refused() -> None:
    owned = Owned()
    decode_spec = on_gpu("w1", role=Role.DECODE)
    owned.want(decode_spec)
    pid = owned.becomes("w1", WorkerPhase.READY).pid
    owned.want(msgspec.structs.replace(decode_spec, role=Role.PREFILL))
    switched = owned.until(lambda: (w := owned.worker("w1")) and w.role is Role.PREFILL and w.phase == "ready" and w)
    assert switched.pid == pid
    owned.node.behaviour.refuses_role = "can't"
    owned.want(decode_spec)
    refused = owned.until(lambda: (w := owned.worker("w1")) and w.refused_role and w.phase == "ready" and w)
    assert (refused.role, refused.refused_role, refused.pid) == (Role.PREFILL, Role.DECODE, pid)


def test_starts_that_fail_back_off_and_fatal_ones_are_given_up() -> None:
    owned = Owned(start_fault="out of memory")
    owned.want(on_gpu("w1"))
    assert owned.becomes("w1", WorkerPhase.BACKOFF).next_start_s is not None
    owned.node.behaviour.start_fault = ""
    assert owned.becomes("w1", WorkerPhase.READY).attempts >= 2
    hopeless = Owned(start_fault="no such model", fatal=True)
    hopeless.want(on_gpu("w1"))
    hopeless.becomes("w1", WorkerPhase.FAILED)


def test_a_crashed_worker_comes_back_and_a_hung_one_is_replaced() -> None:
    owned = Owned()
    owned.want(on_gpu("w1"))
    first = owned.becomes("w1", WorkerPhase.READY).pid
    owned.node.crash("w1")
    second = owned.until(lambda: (w := owned.worker("w1")) and w.phase == "ready" and w.pid != first and w.pid)
    owned.node.hang("w1")
    owned.until(lambda: (w := owned.worker("w1")) and w.phase == "ready" and w.pid not in (first, second))


def test_a_frozen_node_says_nothing_and_has_its_workers_still() -> None:
    owned = Owned()
    owned.want(on_gpu("w1"))
    pid = owned.becomes("w1", WorkerPhase.READY).pid
    owned.node.freeze()
    assert owned.node.due == float("inf")
    made = owned.node.reports_made
    owned.node.thaw()
    owned.until(lambda: owned.node.reports_made > made)
    assert owned.worker("w1").pid == pid  # type: ignore[union-attr]


def test_f10_a_restarted_agent_has_a_new_boot_and_adopts_what_ran() -> None:
    owned = Owned()
    owned.want(on_gpu("w1"), on_gpu("w2", index=1))
    pid = owned.becomes("w2", WorkerPhase.READY).pid
    boot = owned.newest().boot_id  # type: ignore[union-attr]
    owned.node.restart()
    owned.until(lambda: owned.newest().boot_id != boot)  # type: ignore[union-attr]
    assert owned.becomes("w2", WorkerPhase.READY).pid == pid
    assert owned.newest().observed_generation == 1  # type: ignore[union-attr]
    owned.node.restart(with_workers=False)
    assert owned.until(lambda: (w := owned.worker("w2")) and w.phase == "ready" and w.pid != pid and w)


def test_a_lost_node_comes_back_without_its_workers() -> None:
    owned = Owned()
    owned.want(on_gpu("w1"))
    pid = owned.becomes("w1", WorkerPhase.READY).pid
    owned.node.lose()
    owned.node.restart()
    assert owned.until(lambda: (w := owned.worker("w1")) and w.phase == "ready" and w.pid != pid and w)


def test_f14_a_wrong_clock_is_told_and_changes_nothing_else() -> None:
    owned = Owned()
    owned.node.clock_offset_s = 600.0
    owned.want(on_gpu("w1"))
    owned.becomes("w1", WorkerPhase.READY)
    assert owned.newest().clock == pytest.approx(time.time() + 600.0, abs=30)  # type: ignore[union-attr]


def test_a_broken_device_is_told_at_once() -> None:
    owned = Owned()
    owned.until(owned.newest)
    owned.node.break_device("gpu-1", "fell off the bus")
    report = owned.until(lambda: (r := owned.newest()) and r.devices[1].fault and r)
    assert report.devices[0].fault == ""


def test_weights_links_and_logs_are_answered() -> None:
    owned = Owned()
    links = (
        LinkSpec(measurement_id="m1", listen=True),
        LinkSpec(measurement_id="m2", listen=False, peer_host="h", peer_port=1),
        LinkSpec(measurement_id="m3", listen=False),
    )
    owned.want(weights=(WeightsSpec(path="org/name"),), links=links)
    report = owned.until(lambda: (r := owned.newest()) and r.links and r)
    assert [weights.state for weights in report.weights] == [FetchState.PRESENT]
    assert report.links[0].address is not None
    assert report.links[1].bytes_per_s is not None
    assert (report.links[2].address, report.links[2].bytes_per_s, report.links[2].error) == (None, None, "")
    owned.tell(TASK_SEND_LOG, LogRequest(request_id="n-1:7", worker_id="w1"))
    reply = owned.until(lambda: next((sent for sent in owned.sent if sent.task is None), None))
    assert reply.key == "tandem:log:n-1:7"
    assert decode(reply.body[0], LogReply).lines == ("simulated log of w1",)


def test_a_settled_node_costs_no_more_than_its_probes_and_reports() -> None:
    owned = Owned()
    owned.node.settings = QUICK
    owned.want(on_gpu("w1"))
    owned.becomes("w1", WorkerPhase.READY)
    owned.until(lambda: owned.node.due > time.monotonic())
    made = owned.node.reports_made
    for probe in range(5):
        owned.until(lambda: time.monotonic() >= owned.node.due)
        owned.node.behaviour.busy = probe  # a load is told with the next report, and makes none
        owned.sent += owned.node.step()
    assert owned.node.reports_made == made, "nothing new, nothing to report before its time"
