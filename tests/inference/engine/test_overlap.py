"""Masks of a grammar are computed while the model runs, neither before nor after it."""

from __future__ import annotations

import json
import threading

import pytest

from inference.contracts.sampling import JsonGrammar
from inference.engine.model_runner import ModelRunner
from inference.engine.sampling.grammar import Follower
from tests.inference.engine.conftest import EngineBuilder
from tests.inference.engine.prompts import PROMPTS
from tests.inference.engine.recorder import DEADLINE_S, answer, greedy

SCHEMA = JsonGrammar(schema=json.dumps({"enum": ["red", "green"]}))


def test_a_mask_and_the_step_that_needs_it_are_computed_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch, start_engine: EngineBuilder
) -> None:
    """Each waits inside for the other to have begun, so one after the other would never end."""
    engine = start_engine()
    alone = answer(engine, PROMPTS[4], greedy(20, grammar=SCHEMA)).text
    mask_began, step_began = threading.Semaphore(0), threading.Semaphore(0)
    met: list[str] = []
    next_mask, run = Follower._next_mask, ModelRunner.run

    def meeting_mask(self: Follower, token_id: int | None = None) -> object:
        mask_began.release()
        if step_began.acquire(timeout=DEADLINE_S if not engine_is_done.is_set() else 0):
            met.append("mask")
        return next_mask(self, token_id)

    def meeting_step(self: ModelRunner, *given: object) -> object:
        step_began.release()
        assert mask_began.acquire(timeout=DEADLINE_S), "no mask was under way"
        met.append("step")
        return run(self, *given)

    engine_is_done = threading.Event()
    monkeypatch.setattr(Follower, "_next_mask", meeting_mask)
    monkeypatch.setattr(ModelRunner, "run", meeting_step)
    text = answer(engine, PROMPTS[4], greedy(20, grammar=SCHEMA)).text
    engine_is_done.set()
    step_began.release()  # the mask after the last token has no step beside it

    assert text == alone
    assert json.loads(text) in ("red", "green")
    assert met.count("mask") >= met.count("step") > 3
