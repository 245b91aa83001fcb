"""Claims about what a node report changes, and what it does not."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest
from structlog.testing import capture_logs

from controlplane.fleet.models import Node
from controlplane.pools import tasks
from controlplane.pools.models import Worker
from inference.contracts import codec, names
from inference.contracts.console import DeploymentChanged
from inference.contracts.reports import WorkerLoad
from inference.contracts.states import WorkerPhase
from tests.control.pools.world import World


@pytest.fixture
def ready(world: World) -> World:
    """One node, a ready pair, nothing left to be sent."""
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    world.outbox.events.clear()
    return world


def load(running: int) -> WorkerLoad:
    return WorkerLoad(running=running, waiting=1, waiting_tokens=7, kv_blocks_used=3, kv_blocks_total=100)


def deployment_events(world: World) -> list[DeploymentChanged]:
    return [event for event in world.outbox.events if isinstance(event, DeploymentChanged)]


def test_everything_a_worker_says_is_kept(ready: World) -> None:
    worker = ready.worker("decode-1")

    assert (worker.http_host, worker.http_port) == ("10.0.0.1", 9000)
    assert (worker.transfer_host, worker.transfer_port) == ("10.0.0.1", 9001)
    assert (worker.fingerprint, worker.context_length, worker.attempts) == ("fingerprint-of-all", 2048, 1)
    assert worker.known_load is not None
    assert worker.known_load.kv_blocks_total == 100
    assert worker.phase_since == ready.now()


def test_a_changed_load_is_shown_and_asks_for_no_reconcile(ready: World) -> None:
    """Observing must not drive itself."""
    reconciles = ready.reconciles
    ready.process("decode-1").load = load(5)
    ready.report()

    assert ready.reconciles == reconciles
    view = deployment_events(ready)[-1].deployment
    running = {worker.name: worker.running for pool in view.pools for worker in pool.workers}
    assert running == {"decode-1": 5, "prefill-1": 0}


def test_a_report_without_news_sends_consoles_nothing_about_deployments(ready: World) -> None:
    ready.report()

    assert deployment_events(ready) == []


def test_a_changed_phase_asks_for_one_reconcile(ready: World) -> None:
    reconciles = ready.reconciles
    ready.process("decode-1").phase = WorkerPhase.BACKOFF
    ready.report()

    assert ready.reconciles == reconciles + 1
    assert ready.worker("decode-1").phase_since == ready.now()


def test_unknown_load_is_not_kept_as_zero(ready: World) -> None:
    ready.process("decode-1").phase = WorkerPhase.STARTING
    ready.report()

    worker = ready.worker("decode-1")
    assert worker.load is None
    assert worker.http_port is None


def test_a_late_report_changes_nothing(ready: World) -> None:
    agent = ready.agents["a"]
    ready.process("decode-1").phase = WorkerPhase.FAILED
    late = agent.message()
    ready.process("decode-1").phase = WorkerPhase.READY
    ready.report()
    with ready.committing():
        tasks.record_node_report(codec.encode_text(late))

    assert ready.worker("decode-1").phase == WorkerPhase.READY


def test_a_report_that_is_no_report_is_dropped(ready: World) -> None:
    with capture_logs() as logs:
        tasks.record_node_report('{"node_id": 7}')

    assert [entry["event"] for entry in logs] == ["node report not readable"]


@pytest.mark.parametrize("node_id", ["nobody", "00000000-0000-4000-8000-000000000000"])
def test_a_report_of_no_node_of_ours_changes_nothing(ready: World, node_id: str) -> None:
    stranger = msgspec.structs.replace(ready.agents["a"].message(), node_id=node_id)
    with ready.committing():
        tasks.record_node_report(codec.encode_text(stranger))

    assert ready.outbox.tasks == []


def test_another_incarnation_is_not_taken_for_the_worker(ready: World) -> None:
    process = ready.process("decode-1")
    process.spec = msgspec.structs.replace(process.spec, incarnation=str(uuid4()))
    process.phase = WorkerPhase.FAILED
    ready.report()

    assert ready.worker("decode-1").phase == WorkerPhase.READY


def test_a_jump_is_taken_as_the_truth_and_logged(ready: World) -> None:
    ready.process("decode-1").phase = WorkerPhase.STOPPING
    ready.report()
    ready.process("decode-1").phase = WorkerPhase.READY
    with capture_logs() as logs:
        ready.report()

    assert ready.worker("decode-1").phase == WorkerPhase.READY
    assert [entry["log_level"] for entry in logs if entry["event"].startswith("worker jumped")] == ["warning"]


def test_a_worker_that_its_node_no_longer_mentions_is_gone(ready: World) -> None:
    agent = ready.agents["a"]
    del agent.processes[str(ready.worker("decode-1").pk)]
    ready.report()

    worker = ready.worker("decode-1")
    assert (worker.phase, worker.reason) == (WorkerPhase.STOPPED, "a no longer runs it")


def test_a_worker_that_its_node_has_not_been_told_of_yet_is_not_gone(ready: World) -> None:
    ready.unreachable["a"] = []
    ready.resize("decode", 2)
    ready.report()

    assert ready.phases()["decode-2"] == "assigned"


def test_a_node_ahead_of_us_gets_a_spec_that_it_takes(ready: World) -> None:
    """The database was restored from an older copy: generations begin again below what the agent has seen."""
    agent = ready.agents["a"]
    agent.generation = 40
    ready.report()

    assert Node.objects.get(name="a").generation == 41
    assert agent.generation == 41


def test_workers_that_we_do_not_know_are_stopped_by_the_next_spec(ready: World) -> None:
    agent = ready.agents["a"]
    known = ready.process("decode-1")
    stranger = msgspec.structs.replace(known.spec, worker_id=str(uuid4()))
    agent.processes[stranger.worker_id] = type(known)(stranger, WorkerPhase.READY)
    ready.report()

    assert stranger.worker_id not in agent.processes
    assert Worker.objects.count() == 2
    generation = agent.generation
    ready.report()
    assert agent.generation == generation, "it is sent once, not with every report"


def test_a_stranger_that_is_ending_already_needs_no_spec(ready: World) -> None:
    agent = ready.agents["a"]
    known = ready.process("decode-1")
    stranger = msgspec.structs.replace(known.spec, worker_id=str(uuid4()))
    agent.processes[stranger.worker_id] = type(known)(stranger, WorkerPhase.STOPPED)
    ready.specs.clear()
    ready.report()

    assert ready.specs == []


def test_new_devices_are_offered_to_pools_that_lack_workers(world: World) -> None:
    agent = world.node("a", slots=2)
    world.node("b", slots=1)
    world.deploy(prefill=1, decode=1)
    world.resize("decode", 3)
    assert world.pool("decode").refusals

    agent.slots = 3
    world.report("a")

    assert world.pool("decode").refusals == ""
    assert world.free_devices() == 0


def test_reports_travel_under_the_task_name_of_the_contracts() -> None:
    assert tasks.record_node_report.name == names.TASK_RECORD_NODE_REPORT
    assert tasks.reconcile_pool.name == names.TASK_RECONCILE_POOL
    assert tasks.sweep.name == names.TASK_SWEEP
