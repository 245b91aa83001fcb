from __future__ import annotations

import math

import pytest
import torch

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.sampling import Sampling
from inference.engine.sampling.chooser import Chooser
from inference.engine.sampling.sampler import LOWEST_LOGPROB, sample

LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.1]]))


def chooser(answer: tuple[int, ...] = (), number: int = 0, **fields: object) -> Chooser:
    made = Chooser(Sampling(max_tokens=9, **({"temperature": 0.0} | fields)), (), answer=number)
    for token in answer:
        made.accept(token)
    return made


def ids(logits: torch.Tensor, *choosers: Chooser) -> list[int]:
    return [sampled.token_id for sampled in sample(logits, choosers)]


def test_greedy_takes_the_first_of_the_largest() -> None:
    assert ids(torch.tensor([[0.0, 3.0, 3.0], [9.0, 1.0, 2.0]]), chooser(), chooser()) == [1, 0]


def test_greedy_counts_after_penalties() -> None:
    assert ids(LOGITS, chooser((0,), presence_penalty=1.0)) == [1]


def test_greedy_and_random_rows_share_a_batch() -> None:
    random = chooser((1, 1), temperature=1.0, seed=3)
    together = ids(LOGITS.expand(3, -1), chooser(), random, chooser(logit_bias={3: 9.0}))
    assert together == [0, *ids(LOGITS, random), 3]


def test_answers_to_one_request_differ_and_the_first_is_that_of_a_request_for_one() -> None:
    rows = torch.zeros(1, 1000)
    several = [ids(rows, chooser(number=number, temperature=1.0, seed=5))[0] for number in range(6)]
    assert len(set(several)) == 6
    assert several[0] == ids(rows, chooser(temperature=1.0, seed=5))[0]


def test_whoever_accepted_the_same_tokens_goes_on_alike() -> None:
    """What a hand-off relies on: the state of a choice follows from the tokens."""
    fields = {"temperature": 1.0, "seed": 9, "repetition_penalty": 1.2, "frequency_penalty": 0.3}
    logits = torch.randn(1, 500, generator=torch.Generator().manual_seed(2))
    whole, answer = chooser(**fields), []
    for _ in range(12):
        answer.append(ids(logits, whole)[0])
        whole.accept(answer[-1])
        assert ids(logits, chooser(tuple(answer), **fields)) == ids(logits, whole)


def test_logprobs_are_the_models_whatever_the_choice() -> None:
    told = sample(LOGITS, [chooser((0,), logprobs=2, presence_penalty=5.0, logit_bias={3: 9.0})])[0]
    assert told.token_id == 3
    assert told.logprob is not None
    assert told.logprob.logprob == pytest.approx(math.log(0.1), abs=1e-6)
    assert [token for token, _ in told.logprob.top] == [0, 1]
    assert [value for _, value in told.logprob.top] == pytest.approx([math.log(0.5), math.log(0.25)], abs=1e-6)


def test_each_row_is_told_as_much_as_it_asked_for() -> None:
    told = sample(LOGITS.expand(3, -1), [chooser(logprobs=0), chooser(), chooser(logprobs=20)])
    assert told[1].logprob is None
    assert [len(told[row].logprob.top) for row in (0, 2) if told[row].logprob] == [0, 4]


def test_an_impossible_token_has_a_log_probability_that_json_can_hold() -> None:
    told = sample(torch.tensor([[0.0, -torch.inf]]), [chooser(logprobs=2)])[0].logprob
    assert told is not None
    assert told.top == ((0, 0.0), (1, LOWEST_LOGPROB))


def test_logits_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(TandemError) as caught:
        sample(torch.tensor([[0.0, float("nan")]]), [chooser()])
    assert caught.value.code == ErrorCode.ENGINE_FAILED
