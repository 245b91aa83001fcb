from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.bench.engine.turns import take_turns
from tests.bench.peers.process import PeerFailed, PeerSpec


def peer(name: str) -> PeerSpec:
    return PeerSpec(name, "none", Path("python"), {"threads": 1})


A, B, C = peer("a"), peer("b"), peer("c")


class Pool:
    """Answers with given seconds, or fails where there are none, and notes who was asked."""

    def __init__(self, **seconds: float | None) -> None:
        self.seconds, self.asked, self.seeds = seconds, [], []

    def ask(self, spec: PeerSpec, question: dict[str, Any]) -> float:
        self.asked.append(spec.name)
        self.seeds.append(question["seed"])
        seconds = self.seconds[spec.name]
        if seconds is None:
            raise PeerFailed(f"{spec.name} fell over\nat line 3")
        return seconds


def test_peers_take_turns_forwards_and_backwards_with_new_prompts() -> None:
    pool = Pool(a=1.0, b=2.0)
    turns = take_turns(pool, {A: 3, B: 3}, {"do": "prompt"})
    assert pool.asked == ["a", "b", "b", "a", "a", "b"]
    assert len(set(pool.seeds)) == 6
    assert (turns.median(A), turns.median(B), turns.median(A, B)) == (1.0, 2.0, 1.0)


def test_a_peer_may_have_fewer_turns() -> None:
    pool = Pool(a=1.0, b=2.0)
    take_turns(pool, {A: 3, B: 1}, {})
    assert pool.asked.count("b") == 1


def test_a_peer_that_fails_is_not_asked_again_and_the_reason_is_kept() -> None:
    pool = Pool(a=1.0, b=None)
    turns = take_turns(pool, {A: 2, B: 2}, {})
    assert pool.asked.count("b") == 1
    assert turns.median(B) is None
    assert turns.why_not(A, B) == "b fell over"


def test_of_siblings_those_that_cannot_win_are_not_asked_again() -> None:
    pool = Pool(a=1.0, b=1.2, c=1.3)
    take_turns(pool, {A: 2, B: 2, C: 2}, {}, siblings=((A, B, C),))
    assert [pool.asked.count(name) for name in "abc"] == [2, 2, 1]


def test_what_is_wanted_anyway_goes_on_even_if_it_cannot_win() -> None:
    pool = Pool(a=1.0, b=9.0)
    take_turns(pool, {A: 2, B: 2}, {}, siblings=((A, B),), kept=(B,))
    assert pool.asked.count("b") == 2
