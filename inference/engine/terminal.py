"""A chat with an engine in the terminal."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import TextIO

import msgspec

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import ChatMessage, ChatPrompt, Prompt, TextPrompt
from inference.contracts.sampling import Sampling
from inference.contracts.states import FinishReason, Role
from inference.engine.interface import Engine, Progress, Token

_HELP = "Type a message; an empty line starts anew, Ctrl-C ends an answer, Ctrl-D ends the chat."

_MIB = 2**20


class Chat:
    """One conversation. sampling: of every answer; its `max_tokens` is cut to what fits. as_text: the prompt is what
    was typed, to be continued, without a chat template."""

    def __init__(self, engine: Engine, role: Role, sampling: Sampling, out: TextIO, *, as_text: bool = False) -> None:
        self._engine = engine
        self._role = role
        self._sampling = sampling
        self._out = out
        self._as_text = as_text
        self._messages: list[ChatMessage] = []

    def run(self, lines: Iterator[str]) -> None:
        """Answer each of `lines`."""
        self._say(f"{_HELP}\n")
        for line in lines:
            if not line.strip():
                self._messages.clear()
                self._say("A new conversation.\n")
                continue
            try:
                self._answer(line)
            except TandemError as error:
                self._say(f"{error.message}\n")

    def _answer(self, line: str) -> None:
        message = ChatMessage(role="user", content=line)
        prompt: Prompt = TextPrompt(text=line) if self._as_text else ChatPrompt(messages=(*self._messages, message))
        token_ids = self._engine.tokenize(prompt)
        most = self._engine.info.context_length
        if len(token_ids) >= most:
            said = f"that makes {len(token_ids)} tokens, which leaves no room for an answer: the model takes {most}"
            raise TandemError(ErrorCode.CONTEXT_LENGTH_EXCEEDED, f"{said} (an empty line starts anew)")
        limit = 1 if self._role is Role.PREFILL else min(self._sampling.max_tokens, most - len(token_ids))
        text = self._stream(token_ids, limit)
        self._messages += [message, ChatMessage(role="assistant", content=text)]

    def _stream(self, token_ids: list[int], limit: int) -> str:
        """Write the answer as it comes, then what it took."""
        sampling = msgspec.structs.replace(self._sampling, max_tokens=limit)
        handle = self._engine.reserve(len(token_ids) + limit, token_ids)
        try:
            sink = _Queue()
            began = time.perf_counter()
            self._engine.generate(handle, token_ids, sampling, sink)
            times, text, finish = self._write(sink)
        finally:
            self._engine.release(handle)
        reading = times[0] - began if times else time.perf_counter() - began
        said = f"{len(token_ids)} prompt tokens ({handle.cached_tokens} cached), first token after {reading:.2f} s"
        if self._role is Role.PREFILL:
            size = len(token_ids) * self._engine.info.kv_bytes_per_token / _MIB
            said += f", {size:.1f} MiB of KV to hand over"
        elif len(times) > 1:
            said += f", then {(len(times) - 1) / (times[-1] - times[0]):.1f} tokens/s"
        if finish is FinishReason.LENGTH and self._role is not Role.PREFILL:
            said += f", cut after {limit}"
        self._say(f"\n[{said}]\n")
        return text

    def _write(self, sink: _Queue) -> tuple[list[float], str, FinishReason | None]:
        """When each token came, the text, and why it ended; None: it was interrupted."""
        times: list[float] = []
        text, finish = "", None
        try:
            for token in sink.tokens():
                times.append(time.perf_counter())
                text, finish = text + token.text, token.finish
                self._say(token.text)
        except KeyboardInterrupt:
            self._say(" ...")
        return times, text, finish

    def _say(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class _Queue:
    """A `Sink` whose tokens another thread takes."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Token | Exception] = queue.SimpleQueue()

    def started(self) -> None:
        """Of no interest here."""

    def progress(self, progress: Progress) -> None:
        """Not asked for."""

    def token(self, token: Token) -> None:
        self._items.put(token)

    def failed(self, error: Exception) -> None:
        self._items.put(error)

    def tokens(self) -> Iterator[Token]:
        """Until the answer ends; raises what made it fail."""
        while True:
            item = self._items.get()
            if isinstance(item, Exception):
                raise item
            yield item
            if item.finish is not None:
                return
