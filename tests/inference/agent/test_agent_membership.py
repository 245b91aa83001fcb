"""Whole agents with keys and broker users of their own: what they take, what they send, and how they get there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.broker.watchdog import EXIT_START_AGAIN
from inference.contracts.codec import encode_text
from inference.contracts.names import WINDOW_STREAM
from inference.contracts.specs import LinkSpec, LogRequest, NodeSpec, WeightsSpec
from inference.contracts.states import FetchState, LogRun, WorkerPhase
from inference.testing.fake_hub import write_model
from inference.testing.valkey import ValkeyServer
from tests.inference.agent.node_under_test import NODE, is_alive, processes_of, wait_for, worker
from tests.inference.agent.scoped_broker import drop_user, make_user, refusals
from tests.inference.agent.secured_agent import ControlPlane, SecuredAgent, admin, welcome_with

pytestmark = pytest.mark.chaos


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path / "valkey") as server:
        yield server


def test_an_agent_does_all_it_has_to_with_its_own_broker_user_and_signs_what_it_sends(
    tmp_path: Path, broker: ValkeyServer
) -> None:
    with SecuredAgent(tmp_path, broker, broker_url=make_user(broker)) as agent, admin(broker) as redis:
        agent.want(worker("w1"))
        agent.wait("w1", WorkerPhase.READY)
        agent.wait_for(lambda: redis.xlen(WINDOW_STREAM))
        reply = agent.ask_log(LogRequest(request_id=f"{NODE}:1", worker_id="w1"))
        assert reply is not None
        assert (reply.error, reply.lines) == ("", ("stub w1 incarnation w1-1 starts",))
        assert all(agent.signed_reports())
        assert refusals(broker) == [], "it needs nothing that its user may not"
        report = agent.newest()
        assert report is not None
        assert report.clock is not None
        assert report.disk_free
        assert "native" in report.engines


def test_specs_without_the_right_code_change_nothing(tmp_path: Path, broker: ValkeyServer) -> None:
    with SecuredAgent(tmp_path, broker, broker_url=make_user(broker)) as agent:
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        forged = encode_text(NodeSpec(node_id=NODE, generation=99, workers=(worker("evil"),)))
        agent.send_as(forged)
        agent.send_as(forged, "0" * 64)
        agent.wait_for(lambda: "(2 refused since the start)" in agent.log.read_text())
        agent.want(worker("w1"), worker("w2"))
        agent.wait("w2", WorkerPhase.READY)
        assert agent.worker("evil") is None
        assert agent.wait("w1", WorkerPhase.READY).pid == pid


def test_a_log_is_read_on_request_and_only_on_that_of_the_control_plane(tmp_path: Path, broker: ValkeyServer) -> None:
    with SecuredAgent(tmp_path, broker, broker_url=make_user(broker)) as agent:
        agent.want(worker("w1"))
        agent.wait("w1", WorkerPhase.READY)
        request = LogRequest(request_id=f"{NODE}:1", worker_id="w1")
        assert agent.ask_log(request, code="0" * 64, within_s=1) is None
        previous = LogRequest(request_id=f"{NODE}:2", worker_id="w1", run=LogRun.PREVIOUS)
        unknown = LogRequest(request_id=f"{NODE}:3", worker_id="none")
        outside = LogRequest(request_id=f"{NODE}:4", worker_id="../../secrets")
        errors = [reply.error for each in (previous, unknown, outside) if (reply := agent.ask_log(each))]
        assert errors == [
            "this node holds no log of the previous run of worker w1",
            "this node holds no log of the current run of worker none",
            "'../../secrets' can't be a worker's id",
        ]


def test_an_agent_of_the_previous_release_gets_its_key_and_its_own_user_at_its_next_start(
    tmp_path: Path, broker: ValkeyServer
) -> None:
    with (
        ControlPlane(lambda: welcome_with(make_user(broker))) as control,
        SecuredAgent(tmp_path, broker, broker_url=broker.url, url=control.url, key="") as agent,
    ):
        agent.want(worker("w1"))
        agent.wait("w1", WorkerPhase.READY)
        assert [proof for proof, _ in control.hellos] == ["cluster"]
        hello = control.hellos[0][1]
        assert hello.node_id == NODE
        assert hello.devices
        assert hello.engines
        assert agent.membership.welcome == welcome_with(make_user(broker))
        assert agent.signed_reports()
        assert all(agent.signed_reports())


def test_an_agent_that_starts_while_the_control_plane_is_away_learns_later_and_starts_anew_for_its_new_user(
    tmp_path: Path, broker: ValkeyServer
) -> None:
    away = False

    def welcome():
        if away:
            raise RuntimeError("not now")
        return welcome_with(make_user(broker))

    with (
        ControlPlane(welcome) as control,
        SecuredAgent(tmp_path, broker, broker_url=broker.url, url=control.url) as agent,
    ):
        agent.wait_for(lambda: control.hellos)
        agent.wait_for(agent.newest)
        agent.signal(2)
        away = True
        broker_url = broker.url  # what an agent of before would remember
        agent.state.save_membership(
            type(agent.membership)(url=control.url, address="127.0.0.1", welcome=welcome_with(broker_url))
        )
        agent.start()
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        away = False
        assert agent.wait_end() == EXIT_START_AGAIN
        agent.start()
        boot = agent.newest().boot_id
        agent.wait_for(lambda: agent.newest().boot_id != boot)
        assert agent.wait("w1", WorkerPhase.READY).pid == pid, "its workers served on"
        assert agent.membership.welcome.redis_url == make_user(broker)


def test_f12_a_broker_that_lost_its_users_takes_the_agent_again_once_the_control_plane_made_them(
    tmp_path: Path, broker: ValkeyServer
) -> None:
    with (
        ControlPlane(lambda: welcome_with(make_user(broker))) as control,
        SecuredAgent(tmp_path, broker, broker_url=make_user(broker), url=control.url) as agent,
    ):
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        said = len(control.hellos)
        drop_user(broker)
        agent.wait_for(lambda: len(control.hellos) > said)
        agent.want(worker("w1"), worker("w2"))
        agent.wait("w2", WorkerPhase.READY, within_s=60)
        broker.stop()
        broker.start(empty=True)
        agent.want(worker("w1"), worker("w3"))
        agent.wait("w3", WorkerPhase.READY, within_s=60)
        assert agent.wait("w1", WorkerPhase.READY).pid == pid


def test_the_agent_of_a_retired_node_stops_its_workers_for_good(tmp_path: Path, broker: ValkeyServer) -> None:
    with (
        ControlPlane(lambda: welcome_with(make_user(broker))) as control,
        SecuredAgent(tmp_path, broker, broker_url=make_user(broker), url=control.url) as agent,
    ):
        agent.want(worker("w1"))
        pid = agent.wait("w1", WorkerPhase.READY).pid
        control.retired = True
        drop_user(broker)
        wait_for(lambda: not is_alive(pid), 60)
        agent.signal(2)
        said = len(control.hellos)
        agent.start()
        wait_for(lambda: len(control.hellos) > said)
        assert processes_of(agent.state.root) == []


def test_weights_and_links_of_a_spec_are_in_the_reports_and_start_again_with_the_agent(
    tmp_path: Path, broker: ValkeyServer
) -> None:
    model = write_model(tmp_path / "model")
    with SecuredAgent(tmp_path, broker, broker_url=make_user(broker)) as agent:
        agent.want_beside(weights=(WeightsSpec(path=str(model)),), links=(LinkSpec(measurement_id="m", listen=True),))
        report = agent.wait_for(lambda: (r := agent.newest()) and r.links and r.links[0].address and r.weights and r)
        assert [weights.state for weights in report.weights] == [FetchState.PRESENT]
        first = report.links[0].address
        agent.signal(2)
        agent.start()
        again = agent.wait_for(
            lambda: (
                (r := agent.newest())
                and r.boot_id != report.boot_id
                and r.links
                and r.links[0].address not in (None, first)
                and r
            )
        )
        assert [weights.state for weights in again.weights] == [FetchState.PRESENT]
        agent.want_beside()
        wait_for(lambda: agent.newest().links == ())
