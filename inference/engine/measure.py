"""Times an engine through its own interface: how fast it reads prompts and how long a step of so many answers takes."""

from __future__ import annotations

import itertools
import random
import statistics
import threading
import time
from dataclasses import dataclass, field

import msgspec

from inference.contracts.sampling import Sampling
from inference.engine.interface import Engine, KVHandle, Progress, Token

#: Longest that one measurement may take.
_DEADLINE_S = 600.0

_GREEDY = Sampling(max_tokens=1, temperature=0.0)


@dataclass(eq=False)
class _Timed:
    """A `Sink` that notes when each token came."""

    times: list[float] = field(default_factory=list)
    error: Exception | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def started(self) -> None:
        """Of no interest here."""

    def progress(self, progress: Progress) -> None:
        """Not asked for."""

    def token(self, token: Token) -> None:
        self.times.append(time.perf_counter())
        if token.finish is not None:
            self.over.set()

    def failed(self, error: Exception) -> None:
        self.error = error
        self.over.set()

    def wait(self) -> None:
        if not self.over.wait(_DEADLINE_S):
            raise TimeoutError(f"no answer within {_DEADLINE_S:g} s")
        if self.error is not None:
            raise self.error


def prompt_seconds(engine: Engine, tokens: int, seed: int) -> float:
    """How long one prompt of `tokens` tokens takes to its first token, alone."""
    began = time.perf_counter()
    (timed,) = _run(engine, 1, tokens, 1, seed)
    return timed.times[0] - began


def step_seconds(
    engine: Engine, answers: int, context: int, steps: int, seed: int, sampling: Sampling = _GREEDY
) -> float:
    """How long a step takes that writes one token of each of `answers` answers after prompts of `context` tokens:
    median over `steps` steps or more in which all of them run. sampling: but for how it ends."""
    # Prompts are read one after the other, so the first answers run ahead: by how much depends on the model.
    ahead = answers
    while True:
        timed = _run(engine, answers, context, steps + ahead + 1, seed, sampling)
        all_run, one_ends = max(one.times[0] for one in timed), min(one.times[-1] for one in timed)
        together = [moment for moment in timed[-1].times if all_run <= moment <= one_ends]
        if len(together) > steps:
            return statistics.median(after - before for before, after in itertools.pairwise(together))
        ahead *= 4


def _run(
    engine: Engine, answers: int, context: int, max_tokens: int, seed: int, sampling: Sampling = _GREEDY
) -> list[_Timed]:
    """Run so many requests with random prompts at once, to their ends."""
    draw = random.Random(seed)  # noqa: S311
    sampling = msgspec.structs.replace(sampling, max_tokens=max_tokens, ignore_eos=True)
    running: list[tuple[KVHandle, _Timed]] = []
    try:
        for _ in range(answers):
            prompt = [draw.randrange(engine.info.vocab_size) for _ in range(context)]
            timed, handle = _Timed(), engine.reserve(context + max_tokens)
            running.append((handle, timed))
            engine.generate(handle, prompt, sampling, timed)
        for _, timed in running:
            timed.wait()
    finally:
        for handle, _ in running:
            engine.release(handle)
    return [timed for _, timed in running]
