"""The seam between an engine and everything around it (worker server, KV transfer).

Imports no torch: the worker server, the transfer code and the stub engine see only this. An engine runs its own loop in
its own thread; every method here may be called from any thread unless said otherwise, and none blocks for longer than
a lock. Results come back through the sinks given with a request, called on the engine's thread: a sink must hand over
to its event loop (`loop.call_soon_threadsafe`) and return at once.

Life of KV blocks: `reserve` sets blocks aside and returns a handle; `release` gives them back, is idempotent and works
in every state: it aborts the request if one runs on the handle. There is no other way for blocks to come back; the
engine never frees a handle by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from inference.contracts.abilities import Abilities
from inference.contracts.generation import ChosenLogprob
from inference.contracts.prompts import Prompt
from inference.contracts.reports import WorkerLoad
from inference.contracts.sampling import Sampling
from inference.contracts.states import FinishReason, Role
from inference.contracts.timings import Window
from inference.contracts.tools import ToolFormat

TokenIds = Sequence[int]


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine is. Two engines may exchange KV only when `fingerprint` is equal: it covers the shape of K and
    V, rope parameters, dtype, block size, layout version and the weights.

    kv_bytes_per_token: K and V over all layers. windows: per layer, how many tokens each token sees, itself included;
    None sees all. Empty: every layer sees all. kv_dtype: of one number in K and V, "float32" for example. tool_format:
    how the model writes calls of tools; None where it is not known. abilities: told to routers.
    """

    model_name: str
    fingerprint: str
    context_length: int
    vocab_size: int
    block_size: int
    kv_blocks_total: int
    kv_bytes_per_token: int
    layers: int
    windows: tuple[int | None, ...] = ()
    kv_dtype: str = ""
    tool_format: ToolFormat | None = None
    abilities: Abilities | None = None


@dataclass(frozen=True, slots=True)
class KVHandle:
    """Names a reservation of KV blocks.

    capacity: tokens it has room for (whole blocks). cached_tokens: leading tokens of the prompt that it was reserved
    for whose KV the engine has already, so that nobody need compute or send it; always less than the whole prompt.
    """

    handle_id: int
    capacity: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class KVMemory:
    """Where the KV of an engine lies, for other processes of this machine that are to read it: in file `fd`, which
    never shrinks, as [layers, K|V, heads, slots, bytes of one head of one token]."""

    fd: int
    shape: tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Token:
    """One new token of a request. text: what became certain with it; finish: set on the last one of its answer, whose
    `text` then holds everything that was held back. answer: which of the request's answers (`Sampling.n`), from 0.
    logprob: where asked for, unless the token is an end of sequence."""

    token_id: int
    text: str
    finish: FinishReason | None
    answer: int = 0
    logprob: ChosenLogprob | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """KV of prompt tokens [start, end) is complete and may be exported. done: of the last chunk. What was cached comes
    first, as a chunk of its own. layers: only of these; None: of all."""

    start: int
    end: int
    done: bool
    layers: range | None = None


class Digest(Protocol):
    """A checksum in the making, such as those of hashlib and xxhash."""

    def update(self, data: memoryview, /) -> None: ...


class Sink(Protocol):
    """Receives what happens to one request, on the engine's thread."""

    def started(self) -> None:
        """First computed in a step (ends the queue time)."""

    def token(self, token: Token) -> None: ...

    def progress(self, progress: Progress) -> None:
        """Only for prefill requests that asked for it."""

    def failed(self, error: Exception) -> None:
        """Ends the request; a `TandemError` where the cause has a code."""


class Engine(Protocol):
    """One model on one set of devices, with one running batch."""

    @property
    def info(self) -> EngineInfo:
        """Valid after `start` returned."""

    def start(self) -> None:
        """Load weights, allocate the KV arena, generate one token to prove it, start the loop thread. Blocking; called
        from a worker thread. Raises `TandemError(INVALID_REQUEST)` when the model path or kind can't ever work (a
        restart would not help), anything else when a restart might."""

    def switch_role(self, role: Role) -> None:
        """Become an engine of a worker of `role` with the weights loaded, and generate one token to prove it. Blocking;
        called from a worker thread while nothing is reserved. Whatever is raised, the engine is what it was."""

    def stop(self) -> None:
        """End the loop thread within a few seconds; running requests get `failed`. Idempotent."""

    def heartbeat_age(self) -> float:
        """Seconds since the loop thread last turned (it turns when idle too). Large while a step hangs."""

    @property
    def failure(self) -> str | None:
        """Why the engine can't serve any more (its loop died; only a new process helps), else None."""

    def load(self) -> WorkerLoad: ...

    def drain_window(self, window: Window) -> None:
        """Move what was measured since the last call into `window` (step times, tokens)."""

    def tokenize(self, prompt: Prompt) -> list[int]:
        """Token ids of `prompt`; chat prompts go through the chat template with a generation prompt.

        Raises `TandemError(INVALID_REQUEST)` for what can't be laid out (no chat template, bad roles, tools in a format
        that is not known, ids out of range, an empty prompt)."""

    def detokenize(self, token_ids: TokenIds) -> str:
        """The text of a prompt, special tokens included."""

    def check(self, sampling: Sampling) -> None:
        """Refuse what this engine can't do. The first of a grammar compiles it: milliseconds.

        Raises `TandemError(INVALID_REQUEST)` naming the field: token ids out of range, a schema that can't be followed,
        more answers than the engine runs at a time."""

    def reserve(self, capacity: int, prompt: TokenIds = (), *, answers: int = 1, salt: str = "") -> KVHandle:
        """Blocks for `capacity` tokens, prompt and answer, for each of `answers` answers; all or nothing.

        prompt: what will be read into them. KV of its beginning that is known from earlier requests is taken over
        (`KVHandle.cached_tokens`), and what these blocks will hold may serve later requests. Empty: neither. answers:
        the prompt is read, exported and imported once; the engine gives each further answer a copy of its KV. salt:
        requests share KV only with those of the same salt.

        Raises `TandemError(KV_FULL)` when they are not free now, `TandemError(CONTEXT_LENGTH_EXCEEDED)` when they never
        could be."""

    def release(self, handle: KVHandle) -> None: ...

    def prefill(
        self,
        handle: KVHandle,
        token_ids: list[int],
        sampling: Sampling,
        sink: Sink,
        *,
        report_progress: bool,
        by_layer: bool = False,
        priority: int = 0,
    ) -> None:
        """Read the prompt and make the first token of every answer (one `token` call each), then stop; KV stays in
        `handle`, which needs room for the prompt alone.

        by_layer: where the engine can tell, progress is reported of each layer once it is computed, not of the chunk.
        priority: of two requests the one with the smaller number is computed first."""

    def generate(
        self, handle: KVHandle, token_ids: list[int], sampling: Sampling, sink: Sink, *, priority: int = 0
    ) -> None:
        """Read the prompt and write the whole answer, or all `sampling.n` of them."""

    def resume(
        self,
        handle: KVHandle,
        token_ids: list[int],
        first_tokens: tuple[int, ...],
        sampling: Sampling,
        sink: Sink,
        *,
        priority: int = 0,
    ) -> int:
        """Go on after `first_tokens`, one of each answer, whose text was given elsewhere; KV of the `token_ids` after
        the cached ones was imported into `handle`: of a layer with a window at least those that the next token sees.
        The first `token` call of an answer is its second token; there is none for one that its first token ended. Gives
        how many answers go on. Raises `ValueError` when none does."""

    @property
    def kv_memory(self) -> KVMemory | None:
        """None: no other process can read this engine's KV (it lies on a device). Valid after `start` returned."""

    def kv_spans(self, handle: KVHandle, start: int, end: int) -> list[tuple[int, int]]:
        """Slots (first, count) of `kv_memory` that hold tokens [start, end), in token order."""

    def export_kv(self, handle: KVHandle, layers: range, start: int, end: int) -> Sequence[memoryview]:
        """KV of tokens [start, end) of `layers` as bytes in wire layout [layer, K|V, head, token, dim], in as many
        pieces as it lies in memory; they are the memory itself where that can be, so read them before `release`. Only
        for tokens whose `Progress` was reported, or that were imported. Any thread."""

    def import_kv(
        self,
        handle: KVHandle,
        layers: range,
        start: int,
        end: int,
        data: memoryview | np.ndarray,
        digest: Digest | None = None,
    ) -> None:
        """Write what `export_kv` gave into the blocks of `handle`: its bytes, or an array of them of the shape [layers,
        K|V, heads, tokens, bytes]. digest: updated with what then lies there, in wire layout. Raises `ValueError` when
        sizes don't fit. Any thread, but never after `release` of the handle."""


@runtime_checkable
class Embedder(Protocol):
    """What an engine has besides that makes embeddings; its kind declares it (`Capabilities.embeddings`)."""

    def embed(self, token_ids: TokenIds) -> np.ndarray:
        """One vector for the whole text, float32, as the model's own recipe pools and scales it. Blocking; called from
        worker threads, several at a time. Raises `TandemError(INVALID_REQUEST)` for token ids out of range."""


EngineFactory = Callable[[], Engine]
