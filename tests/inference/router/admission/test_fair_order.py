"""In which order claims take their turns."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from inference.router.admission.fair_order import Claim, FairOrder, Turn


def waiting(order: FairOrder, *claims: Claim) -> list[Turn]:
    turns = [order.come(claim) for claim in claims]
    for turn in turns:
        order.wait(turn)
    return turns


def called(order: FairOrder) -> list[str]:
    keys = []
    while (turn := order.call()) is not None:
        keys.append(turn.claim.key_id)
    return keys


def test_claims_of_one_key_go_one_after_the_other_and_keys_side_by_side() -> None:
    order = FairOrder()
    waiting(order, *[Claim("a", tokens=10)] * 3, *[Claim("b", tokens=10)] * 3)
    assert called(order) == ["a", "b"] * 3
    assert len(order) == 0


def test_who_comes_late_has_no_credit_for_the_time_before() -> None:
    order = FairOrder()
    waiting(order, *[Claim("a", tokens=10)] * 9)
    for _ in range(5):
        order.call()
    waiting(order, *[Claim("late", tokens=10)] * 4)
    assert called(order)[:6] == ["late", "a", "late", "a", "late", "a"]


def test_who_was_called_in_vain_is_called_first_again_and_pays_once() -> None:
    order = FairOrder()
    first, _, _ = waiting(order, Claim("a", tokens=10), Claim("b", tokens=10), Claim("a", tokens=10))
    for _ in range(5):
        assert order.call() is first
        order.wait(first)
    assert called(order) == ["a", "b", "a"]


def test_a_key_of_a_lower_class_waits_for_all_of_a_higher_one() -> None:
    order = FairOrder()
    waiting(order, Claim("low", rank=1), *[Claim("high", rank=-1, tokens=1000)] * 3)
    assert called(order) == ["high", "high", "high", "low"]


@pytest.mark.parametrize("seed", range(5))
def test_keys_that_always_wait_are_served_alike_whatever_their_requests_are_and_however_many_give_up(seed: int) -> None:
    rng = random.Random(seed)
    order, served, here = FairOrder(), Counter[str](), dict[str, list[Turn]](a=[], b=[], c=[])
    sizes = {"a": (1, 20), "b": (50, 60), "c": (1, 100)}
    for _ in range(4000):
        for key, turns in here.items():
            while len(turns) < (10 if key == "a" else 3):
                turns += waiting(order, Claim(key, tokens=rng.randint(*sizes[key])))
            if key == "a" and rng.random() < 0.7:  # most of its clients leave
                order.give_up(turns.pop(rng.randrange(len(turns))))
        turn = order.call()
        assert turn is not None
        here[turn.claim.key_id].remove(turn)
        served[turn.claim.key_id] += turn.claim.tokens
    assert max(served.values()) - min(served.values()) <= 200


def test_nothing_is_kept_of_who_has_left() -> None:
    order = FairOrder()
    for turn in waiting(order, *[Claim(str(number), tokens=10) for number in range(100)]):
        order.give_up(turn)
    assert (len(order), order.call(), order.of_key("1")) == (0, None, 0)
    assert not order._ends
    assert not order._lines
