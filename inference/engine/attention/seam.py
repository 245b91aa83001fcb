"""Attention over the KV arena, for any Hugging Face decoder model, without model code.

transformers lets a function be registered under a name that models then call for every layer. Ours gets the tokens of
all requests of a step in one row `[1, heads, tokens, head_size]` and hands them to the attention of the step, which
writes K and V into the arena and attends request by request. The name is not registered for masks, so models build
none.

What the step consists of reaches the function through a context variable: not every model passes unknown arguments
on to its attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from transformers import AttentionInterface

from inference.engine.kv_cache import KVCache
from inference.engine.reservations import SlotMap

ATTENTION = "tandem"

#: Arguments by which models ask for score functions that plain attention does not have. Ignoring one is a wrong answer.
_UNSUPPORTED = ("softcap", "s_aux", "sinks", "position_bias")


class AttentionStep(Protocol):
    """What happens in the attention of each layer while a model runs."""

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
        window: int | None,
    ) -> torch.Tensor:
        """Output [1, tokens, heads, head_size] for `query` [1, heads, tokens, head_size] and `key`, `value`
        [1, kv_heads, tokens, head_size]. window: each token sees itself and the window - 1 tokens before it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The tokens of one request in a step: rows [first_row, first_row + rows), the request's tokens from `past` on."""

    slot_map: SlotMap
    first_row: int
    rows: int
    past: int

    @property
    def end(self) -> int:
        """Tokens of the request that have KV once the step is done."""
        return self.past + self.rows


class AttentionBackend(Protocol):
    """One way to compute attention. All ways compute the same; they differ in what they need and in speed."""

    @property
    def name(self) -> str:
        """What it is, for people, with what it consists of."""

    @property
    def token_major(self) -> bool:
        """Whether the arena is to hold all heads of a token next to each other; see `KVCache`."""

    def begin(self, cache: KVCache, segments: list[Segment], slots: torch.Tensor) -> AttentionStep:
        """The attention of a step over `segments`, whose K and V go to `slots` [tokens] of `cache`."""


_current: ContextVar[AttentionStep] = ContextVar("attention_step")


@contextmanager
def attention_step(step: AttentionStep) -> Iterator[None]:
    """Models called in this thread within the context attend by `step`."""
    token = _current.set(step)
    try:
        yield
    finally:
        _current.reset(token)


def window_start(position: int, window: int | None) -> int:
    """The first token that the token at `position` sees."""
    return 0 if window is None else max(0, position + 1 - window)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **arguments: Any,
) -> tuple[torch.Tensor, None]:
    if attention_mask is not None or any(arguments.get(name) is not None for name in _UNSUPPORTED):
        raise ValueError("the model asks for an attention that this engine does not compute")
    return _current.get().attend(module.layer_idx, query, key, value, scaling, sliding_window), None


AttentionInterface.register(ATTENTION, _attention)
