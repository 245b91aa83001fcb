"""What a router knows is let go of when what it is about is no more."""

from __future__ import annotations

from inference.contracts.reports import WorkerLoad
from inference.router.choosing.knowledge import Knowledge
from inference.router.choosing.place import Place

A, B, C = ("a", "1"), ("b", "1"), ("c", "1")
IDLE = WorkerLoad(running=0, waiting=0, waiting_tokens=0, kv_blocks_used=0, kv_blocks_total=1)


def knowledge() -> Knowledge:
    return Knowledge(most_blocks=100, cool_s=5.0, most_s=60.0, try_s=30.0)


def test_workers_that_are_gone_are_forgotten_once_no_request_is_there() -> None:
    known = knowledge()
    place = Place("chat", known.standings)
    place.move_to(A, 10)
    known.told(B, IDLE, 0.0)
    known.forget_all_but((), (), 0.0)
    assert list(known.standings) == [A]
    place.leave()
    known.forget_all_but((), (), 0.0)
    assert not known.standings


def test_a_worker_is_suspected_after_a_fault_of_its_own_or_of_its_hand_off_to_the_one_in_question() -> None:
    known = knowledge()
    known.workers.failed(A, 0.0)
    known.pairs.failed((C, B), 0.0)
    assert known.suspects(1.0) == {A}
    assert known.suspects(1.0, beside=C) == {A, B}
    known.handed_off((C, B), 100, 0.1)
    assert known.suspects(1.0, beside=C) == {A}


def test_faults_and_hand_offs_of_what_is_gone_are_forgotten_and_of_what_is_there_are_not() -> None:
    known = knowledge()
    for worker in (A, B):
        known.workers.failed(worker, 0.0)
    for pair in ((C, A), (C, B), (A, B)):
        known.handed_off(pair, 100, 0.1)
        known.pairs.failed(pair, 0.0)
    known.workers.failed(B, 0.0)
    known.forget_all_but({B, C}, (), 1.0)
    assert set(known.handing(C)) == {B}
    assert not known.handing(A)
    assert known.suspects(1.0, beside=C) == {B}
    assert known.suspects(1.0, beside=A) == {B}, "by its own"
    assert known.pairs.avoided(1.0) == {(C, B)}
