from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.step_budget import LEAST_TOKENS, StepBudget


def run(budget: StepBudget, steps: int, base_s: float, per_token_s: float) -> list[float]:
    """Seconds of steps in which answers run and prompts never end."""
    seconds = []
    for _ in range(steps):
        tokens = budget.tokens()
        seconds.append(base_s + tokens * per_token_s)
        budget.measured(4, tokens, seconds[-1])
    return seconds


@given(
    base_s=st.floats(0.005, 0.05),
    per_answer_s=st.floats(0.0, 0.002),
    per_token_s=st.floats(0.0001, 0.001),
    growth=st.floats(0.0, 0.0005),
    seed=st.integers(0, 9),
)
def test_steps_with_answers_keep_to_the_target_on_any_machine(base_s, per_answer_s, per_token_s, growth, seed) -> None:
    """A machine on which each prompt token costs more the further on it stands; prompts and answers come and go."""
    target, chunk, draw = 0.1, 256, random.Random(seed)
    budget, over, position, answers = StepBudget(target), [], 0, 4
    for step in range(300):
        answers = max(1, min(16, answers + draw.choice((-1, 0, 0, 1))))
        tokens = min(budget.tokens(), chunk) if draw.random() < 0.8 else 0
        each_s = per_token_s * (1 + growth * position)
        seconds = base_s + answers * per_answer_s + tokens * each_s
        if step > 20 and tokens > LEAST_TOKENS:
            over.append(seconds / target)
        budget.measured(answers, tokens, seconds)
        position = position + tokens if position < 4000 else 0
    assert max(over, default=0.0) <= 1.25
    assert statistics.mean(over) <= 1.02 if over else True


def test_the_first_step_is_careful() -> None:
    assert StepBudget(0.1).tokens() == LEAST_TOKENS


def test_steps_settle_at_the_target() -> None:
    budget = StepBudget(0.1)
    budget.measured(4, 0, 0.04)
    assert run(budget, 20, base_s=0.04, per_token_s=0.001)[-1] == pytest.approx(0.1, rel=0.02)


def test_they_do_so_too_when_no_step_was_ever_without_a_prompt() -> None:
    assert run(StepBudget(0.1), 40, base_s=0.05, per_token_s=0.0005)[-1] == pytest.approx(0.1, rel=0.05)


def test_more_answers_leave_less_for_prompts() -> None:
    budget = StepBudget(0.1)
    budget.measured(1, 0, 0.02)
    run(budget, 20, base_s=0.02, per_token_s=0.001)
    before = budget.tokens()
    after = run(budget, 40, base_s=0.06, per_token_s=0.001)
    assert budget.tokens() < before
    assert after[-1] == pytest.approx(0.1, rel=0.05)


def test_prompts_are_read_on_even_where_answers_alone_take_too_long() -> None:
    budget = StepBudget(0.1)
    budget.measured(8, 0, 0.3)
    budget.measured(8, 16, 0.32)
    assert budget.tokens() == LEAST_TOKENS


def test_what_a_prompt_costs_is_learned_while_no_answer_runs() -> None:
    budget = StepBudget(0.1)
    budget.measured(0, 256, 0.256)
    assert budget.tokens() == 100
