from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Sampling
from inference.engine.sampler import draw, sample, uniform

LOGITS = np.log(np.array([0.5, 0.25, 0.15, 0.1]))


def drawn(times: int = 4000, **fields: float) -> Counter[int]:
    return Counter(draw(LOGITS, Sampling(max_tokens=1, seed=7, **fields), index) for index in range(times))


def test_greedy_takes_the_first_of_the_largest() -> None:
    logits = torch.tensor([[0.0, 3.0, 3.0], [9.0, 1.0, 2.0]])
    assert sample(logits, [(Sampling(max_tokens=1, temperature=0), 0)] * 2) == [1, 0]


def test_greedy_and_random_rows_share_a_batch() -> None:
    random = Sampling(max_tokens=1, seed=3)
    rows = torch.tensor(np.stack([LOGITS, LOGITS]), dtype=torch.float32)
    both = sample(rows, [(Sampling(max_tokens=1, temperature=0), 5), (random, 5)])
    assert both == [0, draw(rows[1].numpy(), random, 5)]


def test_shares_follow_the_probabilities() -> None:
    counts = drawn()
    assert [counts[i] / 4000 for i in range(4)] == pytest.approx([0.5, 0.25, 0.15, 0.1], abs=0.03)


def test_a_low_temperature_sharpens_and_a_tiny_one_is_greedy() -> None:
    assert drawn(temperature=0.5)[0] / 4000 == pytest.approx(0.25 / 0.345, abs=0.03)
    assert set(drawn(200, temperature=1e-8)) == {0}


def test_top_k_keeps_the_k_most_likely() -> None:
    assert set(drawn(top_k=2)) == {0, 1}
    assert set(drawn(200, top_k=1)) == {0}
    assert set(drawn(top_k=99)) == {0, 1, 2, 3}


def test_top_p_keeps_the_fewest_tokens_that_reach_it() -> None:
    assert set(drawn(top_p=0.5)) == {0}
    assert set(drawn(top_p=0.51)) == {0, 1}
    assert set(drawn(200, top_p=0)) == {0}


def test_top_p_counts_within_what_top_k_left() -> None:
    assert set(drawn(top_k=2, top_p=0.6)) == {0}
    assert set(drawn(top_k=2, top_p=0.7)) == {0, 1}


def test_a_token_depends_on_seed_and_index_alone() -> None:
    assert uniform(5, 3) == uniform(5, 3)
    assert len({uniform(seed, index) for seed in (0, 1, -1, 2**63, 2**64 - 2) for index in range(20)}) == 100


def test_logits_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(TandemError) as caught:
        sample(torch.tensor([[0.0, float("nan")]]), [(Sampling(max_tokens=1, temperature=0), 0)])
    assert caught.value.code == ErrorCode.ENGINE_FAILED


@given(
    st.lists(st.integers(-30, 30).map(float), min_size=1, max_size=50),
    st.floats(0.05, 3),
    st.floats(0, 1),
    st.integers(0, 60),
    st.integers(-(2**70), 2**70),
)
def test_a_draw_is_always_within_the_nucleus(values, temperature, top_p, top_k, seed) -> None:
    logits = np.array(values)
    chosen = draw(logits, Sampling(max_tokens=1, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed), 0)
    likelier = np.sort(logits[logits > logits[chosen]])[::-1]
    assert top_k == 0 or len(likelier) < top_k
    kept = np.sort(logits)[::-1][: top_k or None]
    weights = np.exp((kept - kept[0]) / temperature)
    assert len(likelier) == 0 or weights[: len(likelier)].sum() <= top_p * weights.sum() * (1 + 1e-9)
