from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from inference.engine.sampling.tallies import Tally

Tokens = st.lists(st.integers(0, 300), max_size=400)


@given(Tokens, Tokens)
def test_every_token_met_is_there_once_with_its_count_in_the_answer(prompt: list[int], answer: list[int]) -> None:
    tally = Tally(prompt)
    for token in answer:
        tally.add(token)
    counts = Counter(answer)
    assert sorted(tally.ids.tolist()) == sorted({*prompt, *answer})
    assert all(counts[token] == count for token, count in zip(tally.ids.tolist(), tally.counts.tolist(), strict=True))
