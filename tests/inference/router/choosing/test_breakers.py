from __future__ import annotations

from inference.router.choosing.breakers import Breakers

A, B = ("a", "1"), ("b", "1")


def breakers() -> Breakers[tuple[str, str]]:
    return Breakers(5.0, 60.0, 30.0)


def test_a_fault_opens_a_breaker_for_a_while() -> None:
    workers = breakers()
    workers.failed(A, 100.0)
    assert workers.avoided(104.9) == {A}
    assert workers.avoided(105.0) == frozenset()


def test_it_stays_open_twice_as_long_after_each_further_fault_up_to_a_limit() -> None:
    workers, now = breakers(), 0.0
    lengths = []
    for _ in range(6):
        workers.failed(A, now)
        opened = now
        while A in workers.avoided(now):
            now += 1
        lengths.append(now - opened)
    assert lengths == [5, 10, 20, 40, 60, 60]


def test_faults_of_one_cause_count_once() -> None:
    workers = breakers()
    for _ in range(20):
        workers.failed(A, 0.0)
    assert workers.avoided(5.0) == frozenset()


def test_half_open_one_request_tries_it_while_others_avoid_it() -> None:
    workers = breakers()
    workers.failed(A, 0.0)
    workers.chosen(A, 6.0)
    assert workers.avoided(6.0) == {A}
    workers.succeeded(A)
    assert workers.avoided(6.0) == frozenset()


def test_a_trial_that_fails_opens_it_again_and_one_without_outcome_is_repeated() -> None:
    workers = breakers()
    workers.failed(A, 0.0)
    workers.chosen(A, 6.0)
    assert workers.avoided(36.0) == frozenset(), "the trial told nothing"
    workers.chosen(A, 36.0)
    workers.failed(A, 37.0)
    assert workers.avoided(46.9) == {A}
    assert workers.avoided(47.0) == frozenset()


def test_a_trial_that_ended_without_an_outcome_leaves_the_trying_to_the_next() -> None:
    workers = breakers()
    workers.failed(A, 0.0)
    workers.told_nothing(A)
    assert workers.avoided(4.0) == {A}, "it is open all the same"
    workers.chosen(A, 6.0)
    workers.told_nothing(A)
    assert workers.avoided(6.0) == frozenset()
    workers.chosen(A, 6.0)
    assert workers.avoided(6.0) == {A}


def test_a_success_makes_the_next_fault_a_first_one() -> None:
    workers = breakers()
    workers.failed(A, 0.0)
    workers.failed(A, 5.0)
    workers.succeeded(A)
    workers.failed(A, 20.0)
    assert workers.avoided(25.0) == frozenset()


def test_breakers_know_nothing_of_each_other_and_are_forgotten_in_time() -> None:
    workers = breakers()
    workers.failed(A, 0.0)
    assert B not in workers.avoided(1.0)
    workers.forget_all_but(lambda worker: True, 1000.0)
    workers.failed(A, 1000.0)
    assert workers.avoided(1005.0) == frozenset()


def test_a_worker_that_is_gone_leaves_no_breaker() -> None:
    workers = breakers()
    workers.failed(A, 0.0)
    workers.failed(B, 0.0)
    workers.forget_all_but(lambda worker: worker == B, 1.0)
    assert workers.avoided(1.0) == {B}
