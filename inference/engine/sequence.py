"""One answer inside the engine, with the prompt that it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference.engine.interface import KVHandle, Sink
from inference.engine.sampling.chooser import Chooser
from inference.engine.text_stream import TextStream


@dataclass(eq=False, slots=True)
class Sequence:
    """Prompt and answer so far, and how much of it was computed.

    token_ids: prompt, then answer. computed: leading tokens whose KV is in the blocks of `handle`. The last sampled
    token is never computed before the next one is wanted, so an answer of n tokens needs KV for n - 1 of them.
    answer: which of the answers of its request. siblings: further answers to the same prompt; they begin with tokens of
    their own once it is read. prefill_only: ends with the first token of each answer.
    report_progress: tell the sink of each computed chunk. by_layer: of each layer instead; layers_told: how many layers
    of the chunk under way it has heard of. shares: its KV is complete in every layer, so that others may use it.
    priority, arrival: the smaller number is computed first; `arrival` counts within one priority.
    """

    handle: KVHandle
    token_ids: list[int]
    chooser: Chooser
    sink: Sink
    text: TextStream
    prompt_length: int
    answer: int = 0
    siblings: list[Sequence] = field(default_factory=list)
    computed: int = 0
    prefill_only: bool = False
    report_progress: bool = False
    by_layer: bool = False
    layers_told: int = 0
    shares: bool = True
    priority: int = 0
    arrival: int = 0
    started: bool = False

    @property
    def reading(self) -> bool:
        """Whether prompt tokens remain to be computed."""
        return self.computed < self.prompt_length

    @property
    def unread(self) -> int:
        """Prompt tokens that remain to be computed."""
        return max(0, self.prompt_length - self.computed)
