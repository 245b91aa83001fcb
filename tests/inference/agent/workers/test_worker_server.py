"""The agent against the real worker server: around a stub engine, and around the native engine with the real model."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from inference.agent.config import Settings
from inference.agent.engines.command import Command, Engine, EngineRegistry, LaunchRequest
from inference.agent.engines.native import native_command
from inference.agent.hosts import Hosts
from inference.agent.main import PRODUCT_ENGINES
from inference.contracts.codec import encode
from inference.contracts.engines import Capabilities
from inference.contracts.reports import WorkerReport
from inference.contracts.specs import DeviceAssignment, EngineSettings
from inference.contracts.states import Role, WorkerDesired, WorkerPhase
from inference.testing.faults import Fault, FaultKind, FaultPoint
from inference.testing.stub_settings import StubSettings
from inference.testing.tls import make_certificates
from tests.inference.agent.node_under_test import ROOT, NodeUnderTest, wait_for, worker


def stub_server_command(request: LaunchRequest) -> Command:
    native = native_command(request)
    module = tuple("inference.testing.stub_worker" if word == "inference.worker" else word for word in native.argv)
    return Command(argv=module, env={**native.env, "PYTHONPATH": str(ROOT)})


STUB_SERVERS = EngineRegistry({"stub": Engine(stub_server_command, Capabilities(switches_role=True))})


def test_the_worker_server_becomes_ready_and_is_drained(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, STUB_SERVERS, probe_failures=100) as node:
        node.want(worker("w1", "stub", engine="stub"))
        ready = node.wait("w1", WorkerPhase.READY, within_s=60)
        assert ready.http is not None
        assert ready.transfer is not None
        assert ready.load is not None
        node.want(worker("w1", "stub", engine="stub", desired=WorkerDesired.DRAIN))
        drained = node.wait("w1", WorkerPhase.STOPPED)
        assert drained.reason == "is drained: nothing runs, waits or is handed over"


def test_workers_get_the_files_of_tls_and_are_called_over_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = make_certificates(tmp_path)
    for name, value in certificates.of_node.items():
        monkeypatch.setenv(name, value)
    with NodeUnderTest(tmp_path / "agent", STUB_SERVERS, certificates.node_tls(), probe_failures=100) as node:
        node.want(worker("w1", "stub", engine="stub"))
        node.wait("w1", WorkerPhase.READY, within_s=60)


def test_a_wrong_model_path_is_told_by_the_worker_and_not_tried_again(tmp_path: Path) -> None:
    with NodeUnderTest(tmp_path, STUB_SERVERS, probe_failures=100) as node:
        node.want(worker("w1", "/no/such/model", engine="stub"))
        failed = node.wait("w1", WorkerPhase.FAILED, within_s=60)
        assert failed.attempts == 1
        assert "/no/such/model" in failed.reason
        assert failed.log_tail


def test_a_native_worker_is_told_its_addresses_and_where_the_secret_is_but_not_the_secret(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    command = native_command(
        LaunchRequest(
            spec=worker("w1"),
            spec_file=tmp_path / "spec.json",
            announce_file=tmp_path / "announce.json",
            secret_file=secret,
            hosts=Hosts(advertised="10.0.0.5", bind="0.0.0.0"),  # noqa: S104
        )
    )
    assert command.argv[:3] == (sys.executable, "-m", "inference.worker")
    assert command.env == {
        "TANDEM_CLUSTER_SECRET_FILE": str(secret),
        "TANDEM_WORKER_HOST": "0.0.0.0",  # noqa: S104
        "TANDEM_WORKER_ADVERTISED_HOST": "10.0.0.5",
    }


def test_the_product_offers_the_native_engine_only_and_it_changes_roles() -> None:
    assert PRODUCT_ENGINES.names == {"native"}
    assert PRODUCT_ENGINES.engine("native").capabilities.switches_role


@pytest.mark.parametrize(
    ("kind", "kept", "why"),
    [
        (None, True, ""),
        (FaultKind.REFUSE, True, "could not become prefill: refused at switch (planted)"),
        (FaultKind.HANG, False, "hung in a change of its role; it is started anew as prefill"),
        (FaultKind.CRASH, False, "exited with code 137 while it was to become prefill"),
    ],
)
def test_a_change_of_role_of_the_worker_server_and_what_can_go_wrong_in_it(
    tmp_path: Path, kind: FaultKind | None, kept: bool, why: str
) -> None:
    faults = () if kind is None else (Fault(point=FaultPoint.SWITCH, kind=kind),)
    settings = tmp_path / "settings.json"
    settings.write_bytes(encode(StubSettings(faults=faults)))
    reasons: set[str] = set()
    with NodeUnderTest(tmp_path / "agent", STUB_SERVERS, probe_failures=100, switch_deadline_s=1.0) as node:
        spec = worker("w1", str(settings), engine="stub", role=Role.DECODE)
        node.want(spec)
        first = node.wait("w1", WorkerPhase.READY, within_s=60)
        node.want(msgspec.structs.replace(spec, role=Role.PREFILL))
        settled = Role.DECODE if kind is FaultKind.REFUSE else Role.PREFILL

        def there() -> WorkerReport | None:
            report = node.report("w1")
            reasons.add(report.reason if report else "")
            done = report and report.phase is WorkerPhase.READY and report.role is settled
            return report if done and (kind is not FaultKind.REFUSE or report.refused_role) else None

        report = wait_for(there, within_s=60)
        assert (report.pid == first.pid) is kept
        assert any(reason.startswith(why) for reason in reasons), reasons
        assert (report.transfer is None) is (settled is Role.PREFILL), "only decode receives KV"


@pytest.mark.model
def test_the_native_engine_comes_up_under_the_agent(tmp_path: Path, default_model_dir: Path) -> None:
    with NodeUnderTest(
        tmp_path, PRODUCT_ENGINES, probe_timeout_s=5.0, probe_failures=100, start_deadline_s=300, stop_deadline_s=15
    ) as node:
        core = min(os.sched_getaffinity(0))
        spec = worker(
            "w1",
            str(default_model_dir),
            role=Role.UNIFIED,
            devices=(DeviceAssignment(device_id="cpu-0", kind="cpu", index=0, cores=(core,)),),
            settings=EngineSettings(kv_tokens=1024),
        )
        node.want(spec)
        ready = node.wait("w1", WorkerPhase.READY, within_s=200)
        assert ready.fingerprint
        wait_for(lambda: (report := node.report("w1")) and report.load is not None)


@pytest.mark.model
def test_the_default_model_changes_its_role_under_the_agent_in_seconds_and_keeps_its_process(
    tmp_path: Path, default_model_dir: Path, record_property: Callable[[str, object], None]
) -> None:
    """With the pauses of the product: from the spec that wants another role until it is reported ready in it."""
    product = Settings()
    with NodeUnderTest(
        tmp_path, PRODUCT_ENGINES, tick_s=product.tick_s, probe_interval_s=product.probe_interval_s, probe_timeout_s=5.0
    ) as node:
        spec = worker("w1", str(default_model_dir), role=Role.DECODE, settings=EngineSettings(kv_tokens=1024))
        node.want(spec)
        pid = node.wait("w1", WorkerPhase.READY, within_s=200).pid
        seconds = []
        for role in (Role.PREFILL, Role.DECODE):
            began = time.monotonic()
            node.want(msgspec.structs.replace(spec, role=role))
            report = wait_for(
                lambda role=role: (r := node.report("w1")) and (r.role, r.phase) == (role, WorkerPhase.READY) and r
            )
            seconds.append(time.monotonic() - began)
            assert (report.pid, report.refused_role) == (pid, None)
        record_property("change_of_role_s", [round(each, 3) for each in seconds])
        assert max(seconds) < 10
