"""An answer that another engine began: the rest is the rest of it, token for token and character for character."""

from __future__ import annotations

import msgspec
import pytest

from inference.contracts.sampling import Sampling
from tests.inference.engine.conftest import EngineBuilder
from tests.inference.engine.prompts import PROMPTS
from tests.inference.engine.recorder import answer, greedy, hand_over

SAMPLINGS = {
    "greedy": greedy(24, ignore_eos=True),
    "drawn": Sampling(max_tokens=24, temperature=0.9, top_p=0.95, seed=11, ignore_eos=True),
    "penalties": greedy(24, ignore_eos=True, repetition_penalty=1.3, frequency_penalty=0.5, presence_penalty=0.2),
}


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("answered", [1, 9, 23])
def test_it_goes_on_as_it_would_have_gone_on(sampling: Sampling, answered: int, start_engine: EngineBuilder) -> None:
    first, second, other = start_engine(), start_engine(), start_engine()
    prompt = PROMPTS[3]
    whole = answer(first, prompt, sampling)
    so_far = [*prompt, *whole.ids[:answered]]
    going_on = msgspec.structs.replace(sampling, answered=answered)
    rest = answer(second, so_far, going_on)
    assert rest.ids == whole.ids[answered:]
    assert "".join(token.text for token in rest.tokens) == "".join(token.text for token in whole.tokens[answered:])
    assert rest.tokens[-1].finish is whole.tokens[-1].finish
    assert hand_over(second, other, so_far, going_on).ids == whole.ids[answered:]
