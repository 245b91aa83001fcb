"""Reports that come in while others are written go together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from controlplane.fleet.credentials import Received
from controlplane.fleet.mailbox import BATCH_MAX, Mailbox
from controlplane.fleet.models import Node
from tests.control.fleet.messages import report

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NODES = [Node(pk=uuid4(), hostname="alpha", address="10.0.0.1") for _ in range(3 * BATCH_MAX)]


def received(node: int, sequence: int = 1, boot: str = "a") -> Received:
    return Received(report(NODES[node], sequence=sequence, boot_id=boot), NOON)


class Desk:
    """Records batches; `hold` makes the first one wait until `let_go`."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, int]]] = []
        self.broken: set[str] = set()
        self.entered, self.free = threading.Event(), threading.Event()
        self.free.set()

    def record(self, batch: Sequence[Received]) -> None:
        self.entered.set()
        assert self.free.wait(10)
        if any(each.report.node_id in self.broken for each in batch):
            raise ValueError("can't be written")
        self.batches.append([(each.report.node_id, each.report.sequence) for each in batch])

    def hold(self) -> None:
        self.entered.clear()
        self.free.clear()


def ids(*numbers: tuple[int, int]) -> list[tuple[str, int]]:
    return [(str(NODES[node].pk), sequence) for node, sequence in numbers]


def delivered_meanwhile(desk: Desk, *waiting: Received) -> None:
    """Deliver one, and the others while it is being written."""
    mailbox = Mailbox(desk.record)
    desk.hold()
    writer = threading.Thread(target=mailbox.deliver, args=(received(0),))
    writer.start()
    assert desk.entered.wait(10)
    for each in waiting:
        mailbox.deliver(each)
    desk.free.set()
    writer.join(10)


def test_a_report_that_comes_alone_is_written_at_once() -> None:
    desk = Desk()
    mailbox = Mailbox(desk.record)
    for number in range(3):
        mailbox.deliver(received(number))
    assert desk.batches == [ids((0, 1)), ids((1, 1)), ids((2, 1))]


def test_those_that_come_meanwhile_are_written_together() -> None:
    desk = Desk()
    delivered_meanwhile(desk, received(1), received(2))
    assert desk.batches == [ids((0, 1)), ids((1, 1), (2, 1))]


def test_of_one_agent_only_the_newest_that_waits_is_written() -> None:
    desk = Desk()
    delivered_meanwhile(desk, received(1, 5), received(1, 7), received(1, 6))
    assert desk.batches[1] == ids((1, 7))


def test_the_agents_before_and_after_a_restart_are_two() -> None:
    desk = Desk()
    delivered_meanwhile(desk, received(1, 500), received(1, 1, boot="b"))
    assert desk.batches[1] == ids((1, 500), (1, 1))


def test_a_batch_has_a_limit() -> None:
    desk = Desk()
    delivered_meanwhile(desk, *(received(number) for number in range(1, 2 * BATCH_MAX)))
    assert [len(batch) for batch in desk.batches] == [1, BATCH_MAX, BATCH_MAX - 1]


def test_one_that_cannot_be_written_keeps_no_other_from_it() -> None:
    desk = Desk()
    desk.broken = {str(NODES[2].pk)}
    delivered_meanwhile(desk, received(1), received(2), received(3))
    assert desk.batches == [ids((0, 1)), ids((1, 1)), ids((3, 1))]


def test_after_a_failure_the_next_report_is_written() -> None:
    desk = Desk()
    mailbox = Mailbox(desk.record)
    desk.broken = {str(NODES[0].pk)}
    with pytest.raises(ValueError, match="written"):
        mailbox.deliver(received(0))
    mailbox.deliver(received(1))
    assert desk.batches == [ids((1, 1))]


def test_from_many_threads_every_agent_s_newest_report_is_written() -> None:
    desk = Desk()
    mailbox = Mailbox(desk.record)
    threads = [
        threading.Thread(target=lambda own=own: [mailbox.deliver(received(own, number)) for number in range(1, 50)])
        for own in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    written = [each for batch in desk.batches for each in batch]
    assert {node: max(sequence for of, sequence in written if of == node) for node, _ in written} == dict(
        ids(*((own, 49) for own in range(8)))
    )


def test_it_is_settled_when_all_that_was_delivered_before_is_written() -> None:
    desk = Desk()
    mailbox = Mailbox(desk.record)
    assert mailbox.settled(0)
    desk.hold()
    writer = threading.Thread(target=mailbox.deliver, args=(received(0),))
    writer.start()
    assert desk.entered.wait(10)
    mailbox.deliver(received(1))
    assert not mailbox.settled(0), "one is being written, one waits"
    desk.free.set()
    assert mailbox.settled(10)
    assert desk.batches == [ids((0, 1)), ids((1, 1))]
    writer.join(10)


def test_a_newer_report_has_the_place_of_the_one_that_it_replaces() -> None:
    """Or reports that keep coming would make a node look silent for ever, or never."""
    desk = Desk()
    mailbox = Mailbox(desk.record)
    desk.hold()
    writer = threading.Thread(target=mailbox.deliver, args=(received(0),))
    writer.start()
    assert desk.entered.wait(10)
    mailbox.deliver(received(1, 5))
    mailbox.deliver(received(2, 1))
    mailbox.deliver(received(1, 6))
    desk.free.set()
    writer.join(10)
    assert desk.batches[1] == ids((1, 6), (2, 1))


def test_after_a_failure_it_is_settled() -> None:
    desk = Desk()
    mailbox = Mailbox(desk.record)
    desk.broken = {str(NODES[0].pk)}
    with pytest.raises(ValueError, match="written"):
        mailbox.deliver(received(0))
    assert mailbox.settled(0)
