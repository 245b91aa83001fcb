"""Streamed answers of a running Tandem, read by the stock client on threads of their own."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import Protocol

from openai import OpenAI

from tests.stack import MODEL

#: Long enough to be read by a prefill worker and handed over.
LONG_PROMPT = "Tell me about this: " + "The quick brown fox jumps over the lazy dog. " * 20


class Served(Protocol):
    """What answers come from."""

    @property
    def router_url(self) -> str: ...

    @property
    def serving_key(self) -> str: ...


@dataclass
class Answer:
    """One stream of exactly `tokens` tokens. number: begins its prompt, so that no worker has KV of it, and a prefill
    worker reads it."""

    stack: Served
    tokens: int
    model: str = MODEL
    text: str = ""
    finish: str | None = None
    usage: int | None = None
    error: Exception | None = None
    flowing: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    number: int = field(default_factory=itertools.count(1).__next__)

    def start(self, within_s: float = 60.0) -> Answer:
        """Ask, and return once several tokens have come."""
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        assert self.flowing.wait(within_s), "no token came"
        return self

    @property
    def goes_on(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def is_whole(self, within_s: float = 120.0) -> bool:
        """Waits for the end; True when every token came and nothing went wrong."""
        assert self.thread is not None
        self.thread.join(within_s)
        assert not self.thread.is_alive(), "the stream did not end"
        if self.error is not None:
            raise self.error
        return self.finish == "length" and self.usage == self.tokens

    def _run(self) -> None:
        try:
            with OpenAI(
                base_url=f"{self.stack.router_url}/v1", api_key=self.stack.serving_key, max_retries=0
            ) as client:
                self._read(client)
        except Exception as error:
            self.error = error
        finally:
            self.flowing.set()

    def _read(self, client: OpenAI) -> None:
        stream = client.chat.completions.create(
            model=self.model,
            messages=[{"role": "user", "content": f"{self.number}. {LONG_PROMPT}"}],
            max_tokens=self.tokens,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
        for number, chunk in enumerate(stream):
            if chunk.usage is not None:
                self.usage = chunk.usage.completion_tokens
            for choice in chunk.choices:
                self.text += choice.delta.content or ""
                self.finish = choice.finish_reason or self.finish
            if number > 3:
                self.flowing.set()
