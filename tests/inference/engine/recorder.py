"""What engine tests share: a sink that remembers, and requests run to their end."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from inference.contracts.generation import ChosenLogprob
from inference.contracts.sampling import Sampling
from inference.engine.interface import Engine, KVHandle, Progress, Token
from inference.engine.sampling.sampled import RawLogprob

DEADLINE_S = 60


class Recorder:
    """A `Sink` that keeps everything it is told."""

    def __init__(self, *, ends_with_prefill: bool = False) -> None:
        self.starts = 0
        self.tokens: list[Token] = []
        self.chunks: list[Progress] = []
        self.error: Exception | None = None
        self._ends_with_prefill = ends_with_prefill
        self._done = threading.Event()

    def started(self) -> None:
        self.starts += 1

    def token(self, token: Token) -> None:
        self.tokens.append(token)
        if token.finish is not None or self._ends_with_prefill:
            self._done.set()

    def progress(self, progress: Progress) -> None:
        self.chunks.append(progress)

    def failed(self, error: Exception) -> None:
        self.error = error
        self._done.set()

    def end(self) -> None:
        self._done.set()

    def wait(self) -> Recorder:
        assert self._done.wait(DEADLINE_S), "the request did not end"
        return self

    @property
    def ids(self) -> list[int]:
        return [token.token_id for token in self.tokens]

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens)


class Numbers:
    """A vocabulary whose tokens are called by their ids."""

    def __init__(self, ends: frozenset[int] = frozenset()) -> None:
        self.ends = ends

    def told(self, token_id: int, raw: RawLogprob) -> ChosenLogprob:
        return ChosenLogprob(token=str(token_id), logprob=raw.logprob, bytes=())


def greedy(max_tokens: int, **fields: object) -> Sampling:
    return Sampling(max_tokens=max_tokens, temperature=0, **fields)


def submit(engine: Engine, prompt: Sequence[int], sampling: Sampling) -> tuple[KVHandle, Recorder]:
    handle, sink = engine.reserve(len(prompt) + sampling.max_tokens, prompt), Recorder()
    engine.generate(handle, list(prompt), sampling, sink)
    return handle, sink


def answer(engine: Engine, prompt: Sequence[int], sampling: Sampling) -> Recorder:
    """Run one request to its end and give its blocks back."""
    handle, sink = submit(engine, prompt, sampling)
    try:
        sink.wait()
    finally:
        engine.release(handle)
    assert sink.error is None, sink.error
    return sink


def hand_over(
    prefill: Engine, decode: Engine, prompt: Sequence[int], sampling: Sampling, layers_at_once: int = 1
) -> Recorder:
    """The same request by two engines; the tokens of both as one."""
    handle, sink = start_hand_over(prefill, decode, prompt, sampling, layers_at_once)
    try:
        sink.wait()
    finally:
        decode.release(handle)
    assert sink.error is None, sink.error
    return sink


def start_hand_over(
    prefill: Engine,
    decode: Engine,
    prompt: Sequence[int],
    sampling: Sampling,
    layers_at_once: int = 1,
    *,
    cached: bool = False,
) -> tuple[KVHandle, Recorder]:
    """Read the prompt in `prefill`, copy its KV chunk by chunk and layer by layer, and go on in `decode`.

    cached: both use what they remember, so that decode is given only what it lacks.
    """
    known = prompt if cached else ()
    source, target = prefill.reserve(len(prompt), known), decode.reserve(len(prompt) + sampling.max_tokens, known)
    first, rest = Recorder(ends_with_prefill=True), Recorder()
    try:
        prefill.prefill(source, list(prompt), sampling, first, report_progress=True)
        first.wait()
        assert first.error is None, first.error
        assert [chunk.done for chunk in first.chunks] == [False] * (len(first.chunks) - 1) + [True]
        rest.tokens += first.tokens
        if first.tokens[0].finish is not None:
            rest.end()
            return target, rest
        for chunk in first.chunks:
            start = max(chunk.start, target.cached_tokens)
            if start >= chunk.end:
                continue
            for begin in range(0, prefill.info.layers, layers_at_once):
                layers = range(begin, min(begin + layers_at_once, prefill.info.layers))
                kv = b"".join(prefill.export_kv(source, layers, start, chunk.end))
                decode.import_kv(target, layers, start, chunk.end, memoryview(kv))
    finally:
        prefill.release(source)
    decode.resume(target, list(prompt), tuple(first.ids), sampling, rest)
    return target, rest
