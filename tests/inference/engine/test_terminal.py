from __future__ import annotations

import io
import re

import pytest

from inference.contracts.states import Role
from inference.engine import terminal
from inference.engine.terminal import Chat
from tests.inference.engine.conftest import EngineBuilder
from tests.inference.engine.recorder import greedy


def chat(engine, lines: list[str], role: Role = Role.UNIFIED, **options: object) -> str:
    out = io.StringIO()
    Chat(engine, role, greedy(8, ignore_eos=True), out, **options).run(iter(lines))
    assert engine.load().kv_blocks_used == 0
    return out.getvalue()


def test_an_answer_is_followed_by_what_it_took(start_engine: EngineBuilder) -> None:
    said = chat(start_engine(), ["Hi"])
    assert re.search(
        r"\[\d+ prompt tokens \(0 cached\), first token after \d+\.\d\d s, then \d+\.\d tokens/s, cut after 8\]", said
    )


def test_a_conversation_goes_on_until_an_empty_line(start_engine: EngineBuilder) -> None:
    said = chat(start_engine(), ["Hi", "And then?", "", "Hi"])
    first, second, third = (int(count) for count in re.findall(r"\[(\d+) prompt tokens", said))
    assert second > first == third
    assert "A new conversation." in said


def test_without_the_template_the_prompt_is_what_was_typed(start_engine: EngineBuilder) -> None:
    assert "[5 prompt tokens" in chat(start_engine(), ["12345"], as_text=True)


def test_a_prefill_engine_tells_what_it_would_hand_over(start_engine: EngineBuilder) -> None:
    assert "MiB of KV to hand over]" in chat(start_engine(), ["Hi"], Role.PREFILL)


def test_a_prompt_that_does_not_fit_is_answered_with_the_reason(start_engine: EngineBuilder) -> None:
    said = chat(start_engine(max_model_len=16), ["a prompt of more than sixteen tokens", "x"], as_text=True)
    assert "that makes 36 tokens, which leaves no room for an answer: the model takes 16" in said
    assert "[1 prompt tokens (0 cached)" in said


def test_an_answer_that_was_interrupted_leaves_nothing_behind(start_engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: object) -> object:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(terminal._Queue, "tokens", interrupted)
    assert "..." in chat(start_engine(), ["Hi"])
