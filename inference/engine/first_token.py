"""Proof at start, and at a change of role, that an engine answers: one token through its loop, its cache and its
tokenizer, as any request."""

from __future__ import annotations

import threading

from inference.contracts.sampling import Sampling
from inference.contracts.timings import Window
from inference.engine.interface import Engine, Progress, Token

_PROMPT = [0]
_SAMPLING = Sampling(max_tokens=1, temperature=0.0, ignore_eos=True)


def generate_one_token(engine: Engine, within_s: float) -> Token:
    """The token after a prompt of one token. Nothing of it stays behind, neither blocks nor figures.

    Raises:
        TimeoutError: none came in time.
        Exception: what made the request fail.
    """
    sink = _Waiting()
    handle = engine.reserve(len(_PROMPT) + _SAMPLING.max_tokens)
    try:
        engine.generate(handle, _PROMPT, _SAMPLING, sink)
        token = sink.wait(within_s)
    finally:
        engine.release(handle)
    engine.drain_window(Window(second=0, source="", deployment=""))
    return token


class _Waiting:
    """A `Sink` that waits for the first token."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._outcome: Token | Exception | None = None

    def started(self) -> None:
        """Of no interest here."""

    def progress(self, progress: Progress) -> None:
        """Not asked for."""

    def token(self, token: Token) -> None:
        self._outcome = token
        self._done.set()

    def failed(self, error: Exception) -> None:
        self._outcome = error
        self._done.set()

    def wait(self, within_s: float) -> Token:
        self._done.wait(within_s)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        if self._outcome is None:
            raise TimeoutError(f"the engine made no token within {within_s:g} s")
        return self._outcome
