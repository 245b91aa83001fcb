from __future__ import annotations

import pytest
import torch

from inference.contracts.sampling import Sampling
from inference.engine.sampling.adjust import adjusted
from inference.engine.sampling.chooser import Chooser

LOGITS = [1.0, 2.0, -2.0, 0.5]


def after(*choosers: Chooser) -> list[list[float]]:
    logits = torch.tensor([LOGITS] * len(choosers))
    before = logits.clone()
    changed = adjusted(logits, choosers)
    assert torch.equal(logits, before), "the model's logits were changed"
    return changed.tolist()


def chooser(prompt: tuple[int, ...] = (), answer: tuple[int, ...] = (), **fields: object) -> Chooser:
    made = Chooser(Sampling(max_tokens=9, **fields), prompt, ends=frozenset({3}))
    for token in answer:
        made.accept(token)
    return made


def test_nothing_asked_for_costs_nothing() -> None:
    logits = torch.tensor([LOGITS])
    assert adjusted(logits, [chooser((1, 2), (1,))]) is logits


def test_repetition_divides_what_is_positive_and_multiplies_what_is_negative_in_prompt_and_answer() -> None:
    assert after(chooser((2, 2), (1,), repetition_penalty=2.0)) == [[1.0, 1.0, -4.0, 0.5]]


def test_frequency_counts_and_presence_does_not_and_both_are_of_the_answer_only() -> None:
    assert after(chooser((0,), (1, 1, 2), frequency_penalty=0.5)) == [[1.0, 1.0, -2.5, 0.5]]
    assert after(chooser((0,), (1, 1, 2), presence_penalty=0.5)) == [[1.0, 1.5, -2.5, 0.5]]
    assert after(chooser((0,), (1, 1), presence_penalty=-1.0, frequency_penalty=0.25)) == [[1.0, 2.5, -2.0, 0.5]]


def test_bias_is_added() -> None:
    assert after(chooser(logit_bias={0: -100.0, 2: 4.0})) == [[-99.0, 2.0, 2.0, 0.5]]


def test_ends_are_banned_until_the_least_tokens_are_made() -> None:
    minus = float("-inf")
    assert after(chooser(answer=(1,), min_tokens=2)) == [[1.0, 2.0, -2.0, minus]]
    assert after(chooser(answer=(1, 1), min_tokens=2)) == [LOGITS]


def test_a_row_is_changed_as_if_it_were_alone() -> None:
    rows = [
        chooser((2,), (1,), repetition_penalty=1.5),
        chooser((1,), (0,)),
        chooser((), (0, 0), presence_penalty=1.0, logit_bias={1: 1.0}),
        chooser((), (), min_tokens=1),
    ]
    assert after(*rows) == [after(row)[0] for row in rows]


def test_low_precision_is_adjusted_in_full_precision() -> None:
    logits = torch.tensor([LOGITS], dtype=torch.bfloat16)
    changed = adjusted(logits, [chooser((), (1,), frequency_penalty=0.001)])
    assert changed.dtype == torch.float32
    assert changed[0, 1].item() == pytest.approx(1.999)
