"""What the table alone says of a deployment."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from inference.contracts.states import Role
from inference.router.choosing.roster import roster_of, servable, what_is_missing
from inference.router.choosing.standing import key_of
from tests.inference.router.choosing.crew import D1, P, deployment, worker


def test_servable_means_one_unified_worker_or_one_full_pair() -> None:
    assert servable(deployment(P, D1))
    assert servable(deployment(worker("u", Role.UNIFIED)))
    assert not servable(deployment(D1))
    assert not servable(deployment(P))
    assert not servable(deployment(P, worker("x", Role.DECODE, fingerprint="y")))
    assert not servable(deployment(P, worker("deaf", Role.DECODE, transfer=False)))


def test_what_is_missing_is_named() -> None:
    assert what_is_missing(deployment(P)) == "No decode worker of 'chat' is ready."
    assert what_is_missing(deployment(D1)) == "No prefill worker of 'chat' is ready."
    mismatch = deployment(P, worker("x", Role.DECODE, fingerprint="y"))
    assert what_is_missing(mismatch).startswith("No pair of 'chat' is ready")


@pytest.mark.parametrize("count", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("seed", range(3))
def test_a_ring_gives_no_worker_far_more_sessions_than_its_share(count: int, seed: int) -> None:
    ring = roster_of(deployment(*(worker(f"d{seed}-{number}", Role.DECODE) for number in range(count)))).answering
    rng = random.Random(seed)
    got = Counter(ring.pinned(rng.getrandbits(64)) for _ in range(500 * count))
    assert max(got.values()) < 1.2 * 500
    assert len(got) == count


def test_a_ring_moves_few_sessions_when_a_worker_leaves() -> None:
    many = [worker(f"d{number}", Role.DECODE) for number in range(8)]
    all_of_them, fewer = roster_of(deployment(*many)).answering, roster_of(deployment(*many[1:])).answering
    moved = 0
    for number in range(500):
        session = random.Random(number).getrandbits(64)
        before, after = all_of_them.pinned(session), fewer.pinned(session)
        assert before is not None
        assert after is not None
        moved += before.key != after.key
        assert before.key == key_of(many[0]) or before.key == after.key
    assert 0 < moved < 250
