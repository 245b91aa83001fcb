"""A thousand acts in random order, most of them broken off: no block is lost, and no answer is wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.sampling import Sampling
from inference.engine.interface import KVHandle, Token
from inference.engine.native import NativeEngine
from tests.inference.engine.conftest import EngineBuilder
from tests.inference.engine.prompts import ANSWER, PROMPTS, unending
from tests.inference.engine.recorder import Recorder, answer
from tests.inference.engine.test_batch_loop import eventually

ACTS = 1000


class Each(Recorder):
    """Tokens by answer."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self.by_answer: list[list[int]] = [[] for _ in range(answers)]
        self.ended = 0

    def token(self, token: Token) -> None:
        self.by_answer[token.answer].append(token.token_id)
        self.ended += token.finish is not None
        super().token(token)


@dataclass(eq=False)
class Request:
    which: int
    handle: KVHandle
    sink: Each
    runs: bool = False


class Storm:
    """Acts on `engine`. expected: answers to `PROMPTS`. kv: of each its first token and the KV that is handed over."""

    def __init__(self, engine: NativeEngine, expected: list[list[int]], kv: list[tuple[int, bytes]], seed: int) -> None:
        self.engine, self.expected, self.kv = engine, expected, kv
        self.draw = random.Random(seed)
        self.live: list[Request] = []
        self.refused = self.checked = 0

    def act(self) -> None:
        acts: list[Callable[[], None]] = [self.generate, self.generate, self.prefill, self.resume, self.reserve]
        self.draw.choice([*acts, self.release, self.release, self.release, self.export, self.wait])()

    def _reserve(self, answers: int = 1, *, room_for_answer: bool = True) -> Request | None:
        which = self.draw.randrange(len(PROMPTS))
        prompt = PROMPTS[which]
        capacity = len(prompt) + (ANSWER if room_for_answer else 0)
        try:
            handle = self.engine.reserve(
                capacity, prompt if self.draw.random() < 0.7 else (), answers=answers, salt=self.draw.choice(("", "x"))
            )
        except TandemError as error:
            if error.code not in (ErrorCode.KV_FULL, ErrorCode.CONTEXT_LENGTH_EXCEEDED):
                raise
            self.refused += 1
            return None
        self.live.append(Request(which, handle, Each(answers)))
        return self.live[-1]

    def reserve(self) -> None:
        self._reserve(self.draw.choice((1, 2)))

    def generate(self) -> None:
        answers = self.draw.choice((1, 1, 2, 3))
        if (made := self._reserve(answers)) is not None:
            sampling = Sampling(max_tokens=ANSWER, temperature=0, ignore_eos=True, n=answers)
            priority = self.draw.choice((0, 0, 1))
            self.engine.generate(made.handle, PROMPTS[made.which], sampling, made.sink, priority=priority)
            made.runs = True

    def prefill(self) -> None:
        if (made := self._reserve(room_for_answer=False)) is not None:
            prompt, progress = PROMPTS[made.which], self.draw.random() < 0.5
            self.engine.prefill(made.handle, prompt, unending(), made.sink, report_progress=progress)

    def resume(self) -> None:
        """KV comes over, wholly or not; then the answer goes on."""
        if (made := self._reserve()) is None:
            return
        prompt, layers = PROMPTS[made.which], range(self.engine.info.layers)
        first, kv = self.kv[made.which]
        if self.draw.random() < 0.3:
            return  # cut off before the first frame
        if made.handle.cached_tokens == 0:
            self.engine.import_kv(made.handle, layers, 0, len(prompt), memoryview(kv))
            made.sink.by_answer[0].append(first)
            self.engine.resume(made.handle, prompt, (first,), unending(), made.sink)
            made.runs = True

    def wait(self) -> None:
        """Let an answer come to its end."""
        if running := [request for request in self.live if request.runs]:
            self.draw.choice(running).sink.wait()

    def export(self) -> None:
        if self.live:
            chosen = self.draw.choice(self.live)
            self.engine.export_kv(chosen.handle, range(1), 0, len(PROMPTS[chosen.which]))

    def release(self) -> None:
        if self.live:
            gone = self.live.pop(self.draw.randrange(len(self.live)))
            self.engine.release(gone.handle)
            if self.draw.random() < 0.2:
                self.engine.release(gone.handle)
            self.check(gone)

    def check(self, request: Request) -> None:
        """What came so far is the beginning of the right answer."""
        assert request.sink.error is None
        for ids in list(request.sink.by_answer):
            came = list(ids)
            assert came == self.expected[request.which][: len(came)]
            self.checked += len(came)


def prefilled(engine: NativeEngine, prompt: list[int]) -> tuple[int, bytes]:
    handle, sink = engine.reserve(len(prompt)), Recorder(ends_with_prefill=True)
    engine.prefill(handle, prompt, unending(), sink, report_progress=False)
    first = sink.wait().ids[0]
    kv = b"".join(engine.export_kv(handle, range(engine.info.layers), 0, len(prompt)))
    engine.release(handle)
    return first, kv


@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_acts_leave_nothing_behind(seed: int, start_engine: EngineBuilder, generated) -> None:
    engine = start_engine(kv_tokens=640, prefill_chunk_tokens=24, max_running=4)
    storm = Storm(engine, generated("llama"), [prefilled(engine, prompt) for prompt in PROMPTS], seed)
    for _ in range(ACTS):
        storm.act()
    for request in list(storm.live):
        engine.release(request.handle)

    eventually(lambda: engine.load().kv_blocks_used == 0)
    assert (engine.load().running, engine.load().waiting) == (0, 0)
    assert engine.failure is None
    assert storm.refused > 20
    assert storm.checked > 1000
    assert answer(engine, PROMPTS[8], unending()).ids == generated("llama")[8]
    whole = engine.reserve(640)
    assert engine.load().kv_blocks_used == engine.info.kv_blocks_total
    engine.release(whole)
