"""One request inside the engine."""

from __future__ import annotations

from dataclasses import dataclass

from inference.contracts.generation import Sampling
from inference.engine.interface import KVHandle, Sink
from inference.engine.text_stream import TextStream


@dataclass(eq=False, slots=True)
class Sequence:
    """Prompt and answer so far, and how much of it was computed.

    token_ids: prompt, then answer. computed: leading tokens whose KV is in the blocks of `handle`. The last sampled
    token is never computed before the next one is wanted, so an answer of n tokens needs KV for n - 1 of them.
    prefill_only: ends with the first token of the answer. report_progress: tell the sink of each computed chunk.
    """

    handle: KVHandle
    token_ids: list[int]
    sampling: Sampling
    sink: Sink
    text: TextStream
    prompt_length: int
    computed: int = 0
    prefill_only: bool = False
    report_progress: bool = False
    started: bool = False

    @property
    def reading(self) -> bool:
        """Whether prompt tokens remain to be computed."""
        return self.computed < self.prompt_length

    @property
    def unread(self) -> int:
        """Prompt tokens that remain to be computed."""
        return max(0, self.prompt_length - self.computed)
