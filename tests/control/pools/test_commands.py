"""Claims about the commands that `make up` uses."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from controlplane.operations.models import Operation
from controlplane.pools.management.commands import wait_ready
from controlplane.pools.models import Deployment, Pool
from inference.contracts.states import WorkerPhase
from tests.control.pools.world import World


def ensure(world: World, *more: str) -> str:
    output = StringIO()
    with world.committing():
        call_command("ensure_deployment", "--name", "m", "--model", "tiny", *more, stdout=output)
    world.settle()
    return output.getvalue()


def wait(timeout: float = 0.0) -> str:
    output = StringIO()
    call_command("wait_ready", "--deployment", "m", "--timeout", str(timeout), stdout=output)
    return output.getvalue()


def test_a_deployment_is_made_once(world: World) -> None:
    world.node("a")
    assert "is being deployed" in ensure(world, "--prefill", "1", "--decode", "1")
    assert "exists already" in ensure(world, "--prefill", "2", "--decode", "2")

    assert [pool.replicas for pool in Pool.objects.all()] == [1, 1]
    assert Operation.objects.count() == 1


def test_a_failed_worker_gets_a_retry(world: World) -> None:
    """The operator mended the path and ran `make up` again."""
    world.node("a")
    ensure(world, "--prefill", "1", "--decode", "1")
    world.process("decode-1").phase = WorkerPhase.FAILED
    world.report()

    assert "decode-1 had failed" in ensure(world, "--prefill", "1", "--decode", "1")
    assert world.process("decode-1").phase == WorkerPhase.STARTING


def test_too_few_devices_are_waited_for_and_then_refused(world: World) -> None:
    with pytest.raises(CommandError, match="needs 1 free device: the fleet has none"):
        ensure(world, "--prefill", "1", "--decode", "1", "--timeout", "0")

    assert not Deployment.objects.exists()


def test_an_unknown_model_is_refused_at_once(world: World) -> None:
    with pytest.raises(CommandError, match="no model named 'huge'"):
        call_command("ensure_deployment", "--name", "m", "--model", "huge", "--prefill", "1", "--decode", "1")


def test_waiting_ends_when_a_pair_serves(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    steps = iter([world.report, world.come_up])
    monkeypatch.setattr(wait_ready.time, "sleep", lambda _: next(steps)())

    output = wait(timeout=60.0)

    lines = [line.strip() for line in output.splitlines()]
    assert sorted(lines[:2]) == ["decode-1 is starting", "prefill-1 is starting"]
    assert sorted(lines[2:]) == ["decode-1 is ready", "prefill-1 is ready"]


def test_a_state_from_before_is_not_taken_for_ready(world: World) -> None:
    """The database still says ready from the last run; no node was heard since."""
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    world.now.advance(60)

    with pytest.raises(CommandError, match="does not serve after 0 s"):
        wait()


def test_a_worker_that_failed_ends_the_wait_with_its_log(world: World) -> None:
    world.node("a")
    world.deploy(prefill=1, decode=1)
    process = world.process("prefill-1")
    process.phase, process.reason, process.log_tail = WorkerPhase.FAILED, "no such model", ("loading", "ValueError: x")
    world.report()

    with pytest.raises(CommandError) as refused:
        wait(timeout=60.0)

    assert str(refused.value) == "prefill-1 failed: no such model\n    loading\n    ValueError: x"


def test_waiting_for_nothing_says_so(world: World) -> None:
    with pytest.raises(CommandError, match="no deployment 'm'"):
        wait()
