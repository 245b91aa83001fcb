from __future__ import annotations

import msgspec

from inference.agent.config import Settings
from inference.agent.workers.health import Health
from inference.contracts.reports import WorkerLoad
from inference.contracts.states import Role
from inference.contracts.worker import WorkerStatus

SETTINGS = Settings(probe_failures=3, start_deadline_s=100, steady_s=10)
IDLE = WorkerLoad(running=0, waiting=0, waiting_tokens=0, kv_blocks_used=0, kv_blocks_total=8)
READY = WorkerStatus(
    worker_id="w",
    incarnation="w-1",
    role=Role.DECODE,
    ready=True,
    draining=False,
    healthy=True,
    failure=None,
    fatal=False,
    transfer=None,
    fingerprint="f",
    context_length=8,
    load=IDLE,
)


def status(**changes: object) -> WorkerStatus:
    return msgspec.structs.replace(READY, **changes)


def test_a_fresh_process_may_be_silent_until_the_start_deadline() -> None:
    health = Health(launched=0)
    for _ in range(50):
        health.missed("refused")
    assert health.fault(100, SETTINGS) is None
    assert health.fault(101, SETTINGS) == "was not ready within 100 s"


def test_loading_counts_towards_the_start_deadline_and_ready_ends_it() -> None:
    health = Health(launched=0)
    health.answered(status(ready=False), 1)
    assert health.fault(101, SETTINGS) == "was not ready within 100 s"
    health.answered(status(), 102)
    assert health.fault(1000, SETTINGS) is None


def test_missed_probes_count_only_in_a_row() -> None:
    health = Health(launched=0)
    health.answered(status(), 1)
    health.missed("timeout")
    health.missed("timeout")
    health.answered(status(), 2)
    health.missed("timeout")
    health.missed("timeout")
    assert health.fault(3, SETTINGS) is None
    health.missed("timeout")
    assert health.fault(3, SETTINGS) == "did not answer 3 probes in a row (timeout)"


def test_an_adopted_process_that_never_answers_is_broken() -> None:
    health = Health(launched=0, served=None)
    for _ in range(3):
        health.missed("refused")
    assert health.fault(1, SETTINGS) is not None


def test_a_stuck_loop_counts_only_once_the_worker_was_ready() -> None:
    health = Health(launched=0)
    for _ in range(5):
        health.answered(status(ready=False, healthy=False), 1)
    assert health.fault(1, SETTINGS) is None
    for _ in range(3):
        health.answered(status(healthy=False), 2)
    assert health.fault(2, SETTINGS) == "the engine loop is stuck"


def test_a_told_failure_is_given_as_the_reason() -> None:
    health = Health(launched=0)
    for _ in range(3):
        health.answered(status(ready=False, failure="out of memory"), 1)
    assert health.fault(1, SETTINGS) == "out of memory"


def test_unknown_load_is_neither_idle_nor_zero() -> None:
    health = Health(launched=0)
    assert health.load is None
    assert not health.idle
    health.answered(status(draining=True, load=None), 1)
    assert not health.idle
    health.answered(status(draining=True), 1)
    assert health.idle
    health.missed("timeout")
    assert not health.idle
    assert health.load is None


def test_idle_means_draining_and_nothing_left_of_any_kind() -> None:
    for kind in ("running", "waiting", "tickets", "handoffs"):
        health = Health(launched=0)
        health.answered(status(draining=True, load=msgspec.structs.replace(IDLE, **{kind: 1})), 1)
        assert not health.idle, kind
    health = Health(launched=0)
    health.answered(status(draining=False), 1)
    assert not health.idle


def test_steady_is_one_unbroken_ready_period() -> None:
    health = Health(launched=0)
    health.answered(status(), 0)
    health.answered(status(), 9)
    assert not health.is_steady(9, SETTINGS)
    assert health.is_steady(10, SETTINGS)
    health.answered(status(ready=False), 11)
    health.answered(status(), 12)
    assert not health.is_steady(13, SETTINGS)
    assert health.served
