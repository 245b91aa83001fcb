"""Drawing against a plain reference: one row at a time, everything sorted, double precision."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.sampling import Sampling
from inference.engine.sampling.draw import draw
from inference.engine.sampling.randomness import uniforms

FOUR = np.log(np.array([0.5, 0.25, 0.15, 0.1]))
TIMES = 4000


def sampling(**fields: float) -> Sampling:
    return Sampling(max_tokens=1, **fields)


def allowed(logits: np.ndarray, asked: Sampling) -> set[int]:
    """What min-p, top-k and top-p leave, one after the other."""
    weights = np.exp((logits - logits.max()) / asked.temperature)
    order = sorted(range(len(logits)), key=lambda token: (-weights[token], token))
    order = [token for token in order if weights[token] >= asked.min_p][: asked.top_k or None]
    if asked.top_p < 1:
        running = np.cumsum(weights[order])
        order = order[: int((running < asked.top_p * running[-1]).sum()) + 1]
    return set(order)


def drawn(logits: np.ndarray, asked: Sampling, times: int = TIMES) -> Counter[int]:
    rows = torch.from_numpy(logits).float().expand(times, -1)
    numbers = torch.from_numpy(uniforms([7] * times, range(times), [0] * times))
    return Counter(draw(rows, [asked] * times, numbers).tolist())


def test_shares_follow_the_probabilities() -> None:
    counts = drawn(FOUR, sampling())
    assert [counts[i] / TIMES for i in range(4)] == pytest.approx([0.5, 0.25, 0.15, 0.1], abs=0.03)


def test_a_low_temperature_sharpens_and_a_tiny_one_is_greedy() -> None:
    assert drawn(FOUR, sampling(temperature=0.5))[0] / TIMES == pytest.approx(0.25 / 0.345, abs=0.03)
    for tiny in (1e-8, 1e-300):
        assert set(drawn(FOUR, sampling(temperature=tiny), 200)) == {0}


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"top_k": 2}, {0, 1}),
        ({"top_k": 1}, {0}),
        ({"top_k": 99}, {0, 1, 2, 3}),
        ({"top_p": 0.5}, {0}),
        ({"top_p": 0.51}, {0, 1}),
        ({"top_p": 0.0}, {0}),
        ({"min_p": 0.6}, {0}),
        ({"min_p": 0.4}, {0, 1}),
        ({"min_p": 0.25}, {0, 1, 2}),
        ({"top_k": 2, "top_p": 0.6}, {0}),
        ({"top_k": 2, "top_p": 0.7}, {0, 1}),
        ({"min_p": 0.4, "top_p": 0.6}, {0}),
        ({"min_p": 0.25, "top_k": 2}, {0, 1}),
    ],
)
def test_each_restriction_counts_within_what_the_one_before_left(fields: dict[str, float], left: set[int]) -> None:
    assert set(drawn(FOUR, sampling(**fields))) == left


def test_what_is_left_keeps_its_proportions() -> None:
    counts = drawn(FOUR, sampling(top_k=2))
    assert counts[0] / TIMES == pytest.approx(2 / 3, abs=0.03)


def test_tokens_that_may_not_come_never_do() -> None:
    banned = np.full(700, -np.inf)
    banned[[3, 650]] = 0.0
    for fields in ({}, {"top_p": 0.99}, {"top_k": 50}, {"min_p": 0.001}):
        assert set(drawn(banned, sampling(**fields), 300)) == {3, 650}


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2**-53])
def test_the_ends_of_the_unit_interval_are_tokens_too(number: float) -> None:
    logits = torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]])
    for fields in ({}, {"top_p": 0.999}):
        assert draw(logits, [sampling(**fields)], torch.tensor([number], dtype=torch.float64)).item() in (1, 2)


def test_a_row_is_drawn_as_if_it_were_alone() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(6, 3000, generator=generator) * 2
    asked = [
        sampling(),
        sampling(top_p=0.999),
        sampling(top_k=5),
        sampling(top_k=1500, top_p=0.9),
        sampling(min_p=0.01, temperature=1.5),
        sampling(top_p=0.3, temperature=0.2),
    ]
    numbers = torch.from_numpy(uniforms(range(6), range(6), [0] * 6))
    together = draw(logits, asked, numbers).tolist()
    alone = [draw(logits[i : i + 1], asked[i : i + 1], numbers[i : i + 1]).item() for i in range(6)]
    assert together == alone


def test_of_equally_likely_tokens_the_lower_ids_are_kept_however_many_there_are() -> None:
    flat = np.zeros(2000)
    assert max(drawn(flat, sampling(top_k=10), 500)) == 9
    assert max(drawn(flat, sampling(top_k=100), 500)) == 99
    assert max(drawn(flat, sampling(top_p=0.01001), 500)) == 20
    assert max(drawn(flat, sampling(top_p=0.5), 2000)) in range(950, 1001)


@given(
    st.lists(st.integers(-20, 20), min_size=1, max_size=200),
    st.sampled_from([0.3, 0.7, 1.0, 2.0]),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.95, 0.999, 1.0]),
    st.integers(0, 250),
    st.sampled_from([0.0, 0.03, 0.3, 1.0]),
    st.integers(-(2**70), 2**70),
)
def test_a_draw_is_among_what_the_reference_leaves(
    values: list[int], temperature: float, top_p: float, top_k: int, min_p: float, seed: int
) -> None:
    # Steps of a third: sums of weights are never within rounding of the shares above.
    logits = np.array(values) / 3 + np.arange(len(values)) * 1e-3
    asked = sampling(temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p)
    numbers = torch.from_numpy(uniforms([seed], [0], [0]))
    token = int(draw(torch.from_numpy(logits[None]).float(), [asked], numbers).item())
    near = {top_p * (1 - 1e-6), min(top_p * (1 + 1e-6), 1.0), top_p}
    floors = {min_p * (1 - 1e-6), min_p}
    assert any(
        token in allowed(logits, sampling(temperature=temperature, top_p=p, top_k=top_k, min_p=m))
        for p in near
        for m in floors
    )
