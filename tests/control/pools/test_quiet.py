"""Where nothing changes nothing is written, said or done again: watching must not drive itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from inference.contracts.console import NodeChanged
from tests.control.pools.world import World


@pytest.fixture
def serving(world: World) -> World:
    world.node("a", slots=8)
    world.deploy(prefill=1, decode=2)
    world.come_up()
    world.sweep()
    world.outbox.events.clear()
    return world


def written_by(step: Callable[[], None]) -> set[str]:
    """Tables that `step` writes to."""
    with CaptureQueriesContext(connection) as queries:
        step()
    statements = [query["sql"].split() for query in queries]
    return {
        words[2 if words[0] in ("INSERT", "DELETE") else 1].strip('"')
        for words in statements
        if words[0] in ("INSERT", "UPDATE", "DELETE")
    }


def test_a_sweep_of_a_quiet_fleet_says_nothing_and_notes_only_that_it_looked(serving: World) -> None:
    written = written_by(serving.sweep)

    forgotten = {"core_idempotentrequest", "access_loginfailure", "django_session"}
    assert written <= {"fleet_watch", *forgotten}
    assert serving.outbox.events == []
    assert serving.outbox.tasks == []


def test_a_report_without_news_is_one_event_and_no_reconcile(serving: World) -> None:
    before = serving.reconciles
    written = written_by(serving.report)

    assert written <= {"fleet_node", "fleet_device"}
    assert {type(event) for event in serving.outbox.events} <= {NodeChanged}
    assert serving.reconciles == before


def test_a_full_fleet_that_can_not_give_more_is_quiet_too(serving: World) -> None:
    serving.resize("decode", 8)
    serving.come_up()
    assert serving.pool("decode").refusals
    serving.sweep()
    serving.outbox.events.clear()

    serving.sweep()

    assert serving.outbox.events == []
