"""How a stub engine behaves."""

from __future__ import annotations

import msgspec

from inference.contracts.tools import ToolFormat
from inference.testing.faults import Fault


class StubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a stub behaves.

    prefill_s_per_token, decode_s_per_token: pretended compute time; a decode step serves all running requests.
    pieces: the answer, token by token and then end-of-sequence; None answers with words drawn from the prompt's KV.
    answer_tokens: words before end-of-sequence; None goes on until max_tokens.
    prefix_cache: whether KV of equal beginnings of prompts is there without being computed.
    tool_format: how its answers hold calls of tools, where `pieces` do.
    embedding_size: numbers of an embedding; None: it makes none.
    fingerprint: what is told apart as another model. load_s: time `start` takes.
    fail_starts: so many starts fail with "out of memory"; counted in the file `starts_file` over processes.
    fatal_start: this text is why no start can ever work.
    """

    prefill_s_per_token: float = 0.0
    decode_s_per_token: float = 0.0
    pieces: tuple[bytes, ...] | None = None
    answer_tokens: int | None = None
    kv_blocks: int = 256
    block_size: int = 16
    context_length: int = 2048
    prefill_chunk_tokens: int = 16
    max_running: int = 32
    prefix_cache: bool = False
    tool_format: ToolFormat | None = ToolFormat.HERMES
    embedding_size: int | None = None
    fingerprint: str = "stub-1"
    load_s: float = 0.0
    fail_starts: int = 0
    starts_file: str | None = None
    fatal_start: str | None = None
    faults: tuple[Fault, ...] = ()
