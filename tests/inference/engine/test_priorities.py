"""Requests of unlike urgency in a running engine: the urgent come first, and nobody loses a token."""

from __future__ import annotations

import threading

from inference.engine.interface import Token
from inference.engine.native import NativeEngine
from tests.inference.engine.conftest import EngineBuilder
from tests.inference.engine.prompts import ANSWER, PROMPTS, unending
from tests.inference.engine.recorder import DEADLINE_S, Recorder


class InOrder(Recorder):
    """Notes whose answer ended when; `begun` is set with its first token."""

    def __init__(self, name: str, ended: list[str]) -> None:
        super().__init__()
        self.begun = threading.Event()
        self._name, self._ended = name, ended

    def token(self, token: Token) -> None:
        self.begun.set()
        if token.finish is not None:
            self._ended.append(self._name)
        super().token(token)


def ask(engine: NativeEngine, which: int, max_tokens: int, sink: Recorder, priority: int) -> None:
    sampling = unending(max_tokens)
    handle = engine.reserve(len(PROMPTS[which]) + max_tokens)
    engine.generate(handle, PROMPTS[which], sampling, sink, priority=priority)


def test_an_answer_makes_way_for_urgent_ones_and_goes_on_where_it_was(start_engine: EngineBuilder, generated) -> None:
    engine = start_engine(max_running=1, prefix_cache=False)
    ended: list[str] = []
    patient = InOrder("patient", ended)
    ask(engine, 7, 400, patient, 5)
    assert patient.begun.wait(DEADLINE_S)
    urgent = [InOrder(f"urgent {n}", ended) for n in range(4)]
    for which, sink in enumerate(urgent):
        ask(engine, which, ANSWER, sink, 0)
    late = InOrder("late", ended)
    ask(engine, 8, ANSWER, late, 5)

    assert late.wait().ids == generated("llama")[8]
    assert [sink.ids for sink in urgent] == generated("llama")[:4]
    assert patient.wait().ids[:ANSWER] == generated("llama")[7]
    assert len(patient.ids) == 400
    assert patient.starts == 1
    assert ended == [*(f"urgent {n}" for n in range(4)), "patient", "late"]


def test_pausing_again_and_again_changes_no_answer(start_engine: EngineBuilder, generated) -> None:
    engine = start_engine(max_running=2, prefill_chunk_tokens=16, kv_tokens=4096)
    sinks = []
    for round_ in range(4):
        for which in range(len(PROMPTS)):
            sink = Recorder()
            ask(engine, which, ANSWER, sink, -round_)
            sinks.append((which, sink))
    for which, sink in sinks:
        assert sink.wait().ids == generated("llama")[which]
        assert sink.error is None
