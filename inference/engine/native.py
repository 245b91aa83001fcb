"""The built-in engine on torch and transformers: see `Engine` for what each method promises."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import structlog
import torch

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import Prompt
from inference.contracts.reports import WorkerLoad
from inference.contracts.sampling import Sampling
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role
from inference.contracts.timings import Window
from inference.engine import chat
from inference.engine.attention.choice import choose_attention
from inference.engine.attention.seam import AttentionBackend
from inference.engine.batch_loop import BatchLoop
from inference.engine.description import check_settings, describe
from inference.engine.first_token import generate_one_token
from inference.engine.heap import settle_heap
from inference.engine.interface import Digest, EngineInfo, KVHandle, KVMemory, Sink, TokenIds
from inference.engine.kv_cache import KVCache
from inference.engine.loader import LoadedModel, load
from inference.engine.model_runner import ModelRunner
from inference.engine.probe import choose_threads
from inference.engine.reservations import Reservations
from inference.engine.sampling.chooser import Chooser
from inference.engine.sampling.grammar import Grammars
from inference.engine.sampling.vocabulary import Vocabulary
from inference.engine.scheduler import Scheduler
from inference.engine.self_check import check_against_reference
from inference.engine.sequence import Sequence
from inference.engine.text_stream import TextStream
from inference.engine.threads import in_passing_thread, one_thread

log = structlog.get_logger()

#: Longest that the first token may take; big models on few cores take seconds.
_FIRST_TOKEN_S = 120.0


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a started engine consists of."""

    info: EngineInfo
    tokenizer: Any
    vocabulary: Vocabulary
    grammars: Grammars
    reservations: Reservations
    cache: KVCache
    loop: BatchLoop


class NativeEngine:
    """An `Engine` for any Hugging Face decoder model that the gate lets pass.

    model_path: a local directory or a hub id, and then of `revision` (empty: the hub's default). device: "cpu" or
    "cuda:<index>". threads: most torch CPU threads where `settings.threads` is 0, in place of the cores
    that this process may use; as many as measurably help are taken.
    """

    def __init__(
        self,
        model_path: str,
        model_name: str,
        role: Role,
        settings: EngineSettings,
        *,
        device: str = "cpu",
        threads: int = 0,
        revision: str = "",
    ) -> None:
        self._model_path = model_path
        self._revision = revision
        self._model_name = model_name
        self._settings = settings
        self._device = torch.device(device)
        self._threads = settings.threads or threads or len(os.sched_getaffinity(0))
        self._log = log.bind(model=model_name, role=role, device=device)
        self._built = time.monotonic()
        self._started: _Parts | None = None

    # -- life ------------------------------------------------------------------------------------

    @property
    def info(self) -> EngineInfo:
        return self._parts.info

    def start(self) -> None:
        check_settings(self._settings)
        if self._device.type == "cuda" and not torch.cuda.is_available():
            raise RuntimeError(f"this worker was given {self._device}, but torch sees no CUDA device")
        self._started = in_passing_thread(self._build)
        self._started.loop.start()
        try:
            generate_one_token(self, _FIRST_TOKEN_S)
        except BaseException:
            self.stop()
            raise
        settle_heap()
        self._log.info("engine ready", threads=self._threads, **asdict(self.info))

    def _build(self) -> _Parts:
        """Load the model and choose how to run it."""
        torch.set_num_threads(self._threads)
        if self._device.type == "cpu" and not self._settings.threads:
            chosen = choose_threads(self._threads)
            self._threads = chosen.threads
            self._log.info("threads chosen", threads=chosen.threads, reason=chosen.reason)
        loaded = load(self._model_path, self._settings.dtype, self._device, self._revision)
        geometry, block_size = loaded.geometry, self._settings.block_size
        attention = choose_attention(
            geometry, loaded.config.num_attention_heads, loaded.dtype, self._device, block_size
        )
        with torch.inference_mode():
            check_against_reference(loaded.model, loaded.reference, geometry, self._device, attention, block_size)
        self._log.info(
            "model loaded",
            dtype=str(loaded.dtype),
            dtype_reason=loaded.dtype_reason,
            attention=attention.name,
            packing=asdict(loaded.packing),
        )
        return self._assemble(loaded, attention)

    def _assemble(self, loaded: LoadedModel, attention: AttentionBackend) -> _Parts:
        geometry = loaded.geometry
        info = describe(self._model_name, loaded, self._settings)
        reservations = Reservations(
            info.kv_blocks_total,
            info.block_size,
            fingerprint=info.fingerprint,
            share=self._settings.prefix_cache,
        )
        slots = info.kv_blocks_total * info.block_size
        cache = KVCache(geometry, slots, loaded.dtype, self._device, token_major=attention.token_major)
        loop = BatchLoop(
            ModelRunner(loaded.model, self._device, attention),
            cache,
            reservations,
            Scheduler(self._settings.max_running, self._settings.prefill_chunk_tokens, self._settings.itl_target_s),
            prepare_thread=lambda: torch.set_num_threads(self._threads),
        )
        vocabulary = Vocabulary(loaded.tokenizer, info.vocab_size, loaded.eos_ids)
        grammars = Grammars(vocabulary, info.tool_format)
        return _Parts(info, loaded.tokenizer, vocabulary, grammars, reservations, cache, loop)

    def switch_role(self, role: Role) -> None:
        """Weights, cache and loop serve every role alike, so only the proof is left to do."""
        generate_one_token(self, _FIRST_TOKEN_S)
        self._log = self._log.bind(role=role)
        self._log.info("engine changed its role")

    def stop(self) -> None:
        if self._started is not None:
            self._started.loop.stop()
            self._started.grammars.close()

    @property
    def failure(self) -> str | None:
        return None if self._started is None else self._started.loop.failure

    def heartbeat_age(self) -> float:
        return time.monotonic() - self._built if self._started is None else self._started.loop.heartbeat_age()

    def load(self) -> WorkerLoad:
        parts = self._parts
        running, waiting, waiting_tokens = parts.loop.queue()
        return WorkerLoad(
            running=running,
            waiting=waiting,
            waiting_tokens=waiting_tokens,
            kv_blocks_used=parts.reservations.used_blocks,
            kv_blocks_total=parts.reservations.total_blocks,
        )

    def drain_window(self, window: Window) -> None:
        """Adds latency STEP and counters PROMPT_TOKENS (computed here) and OUTPUT_TOKENS (made here)."""
        self._parts.loop.drain_window(window)

    # -- prompts and blocks ----------------------------------------------------------------------

    def tokenize(self, prompt: Prompt) -> list[int]:
        return chat.tokenize(self._parts.tokenizer, prompt, self._parts.info.vocab_size)

    def detokenize(self, token_ids: TokenIds) -> str:
        text: str = self._parts.tokenizer.decode(list(token_ids), skip_special_tokens=False)
        return text

    def check(self, sampling: Sampling) -> None:
        parts = self._parts
        strange = next((i for i in sampling.logit_bias if not 0 <= i < parts.info.vocab_size), None)
        if strange is not None:
            raise TandemError(
                ErrorCode.INVALID_REQUEST,
                f"logit_bias names token {strange}, which is not in 0..{parts.info.vocab_size - 1}",
                "logit_bias",
            )
        if sampling.n > self._settings.max_running:
            raise TandemError(
                ErrorCode.INVALID_REQUEST,
                f"n is {sampling.n}; this engine runs {self._settings.max_running} answers at a time",
                "n",
            )
        if sampling.grammar is not None:
            parts.grammars.follow(sampling.grammar)

    def reserve(self, capacity: int, prompt: TokenIds = (), *, answers: int = 1, salt: str = "") -> KVHandle:
        handle = self._parts.reservations.reserve(capacity, prompt, answers=answers, salt=salt)
        if handle.cached_tokens:
            self._parts.loop.wake()
        return handle

    def release(self, handle: KVHandle) -> None:
        self._parts.loop.abort(handle)
        self._parts.reservations.release(handle)

    @property
    def kv_memory(self) -> KVMemory | None:
        return self._parts.cache.memory

    def kv_spans(self, handle: KVHandle, start: int, end: int) -> list[tuple[int, int]]:
        with self._parts.reservations.pin(handle) as slot_map:
            return slot_map.spans(start, end)

    def export_kv(self, handle: KVHandle, layers: range, start: int, end: int) -> list[memoryview]:
        with self._parts.reservations.pin(handle) as slot_map, torch.inference_mode(), one_thread():
            return self._parts.cache.export_bytes(slot_map, layers, start, end)

    def import_kv(
        self,
        handle: KVHandle,
        layers: range,
        start: int,
        end: int,
        data: memoryview | np.ndarray,
        digest: Digest | None = None,
    ) -> None:
        with self._parts.reservations.pin(handle) as slot_map, torch.inference_mode(), one_thread():
            self._parts.cache.import_bytes(slot_map, layers, start, end, data, digest)

    # -- requests --------------------------------------------------------------------------------

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
        reader = self._reader(handle, token_ids, sampling, sink, priority)
        reader.report_progress, reader.by_layer = report_progress, report_progress and by_layer
        for answer in (reader, *reader.siblings):
            answer.prefill_only = True
        self._submit(handle, len(token_ids), [reader])

    def generate(
        self, handle: KVHandle, token_ids: list[int], sampling: Sampling, sink: Sink, *, priority: int = 0
    ) -> None:
        reader = self._reader(handle, token_ids, sampling, sink, priority)
        self._submit(handle, len(token_ids) - sampling.answered + sampling.max_tokens - 1, [reader])

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
        going_on: list[Sequence] = []
        for answer, first_token in zip(
            self._answers(handle, token_ids, sampling, sink, priority), first_tokens, strict=True
        ):
            answer.shares = not self._parts.info.windows  # of a layer with a window only the end may have come
            answer.computed = len(token_ids)
            answer.token_ids.append(first_token)
            answer.chooser.accept(first_token)
            if answer.text.push(first_token).finish is None:
                going_on.append(answer)
        if not going_on:
            raise ValueError("every answer ended with its first token: there is nothing to go on with")
        self._submit(handle, len(token_ids) - sampling.answered + sampling.max_tokens - 1, going_on)
        return len(going_on)

    def _reader(
        self, handle: KVHandle, token_ids: list[int], sampling: Sampling, sink: Sink, priority: int
    ) -> Sequence:
        """The first answer of a request, which reads the prompt for all of them."""
        reader, *reader.siblings = self._answers(handle, token_ids, sampling, sink, priority)
        reader.computed = self._parts.reservations.cached(handle, token_ids)
        return reader

    def _answers(
        self, handle: KVHandle, token_ids: list[int], sampling: Sampling, sink: Sink, priority: int
    ) -> list[Sequence]:
        if sampling.max_tokens < 1:
            raise TandemError(
                ErrorCode.INVALID_REQUEST, f"max_tokens is {sampling.max_tokens}, not 1 or more", "max_tokens"
            )
        parts = self._parts
        chat.check_ids(token_ids, parts.info.vocab_size)
        decode = self.detokenize if sampling.special_tokens else self._decode
        prompt_length = len(token_ids) - sampling.answered
        prompt, answered = token_ids[:prompt_length], token_ids[prompt_length:]
        answers = [
            Sequence(
                handle=handle,
                token_ids=list(token_ids),
                chooser=Chooser(
                    sampling,
                    prompt,
                    answer=number,
                    ends=parts.vocabulary.ends,
                    follower=parts.grammars.follow(sampling.grammar) if sampling.grammar is not None else None,
                ),
                sink=sink,
                text=TextStream(decode, parts.vocabulary, sampling, answer=number),
                prompt_length=len(token_ids),
                answer=number,
                priority=priority,
            )
            for number in range(sampling.n)
        ]
        for answer in answers:
            for token_id in answered:  # its text was given elsewhere
                answer.chooser.accept(token_id)
                answer.text.push(token_id)
        return answers

    def _submit(self, handle: KVHandle, tokens: int, answers: list[Sequence]) -> None:
        """Queue `answers`, each of which will leave KV of `tokens` tokens."""
        if tokens > handle.capacity:
            raise ValueError(f"{tokens} tokens do not fit a reservation of {handle.capacity}")
        with self._parts.reservations.pin(handle):
            for answer in answers:
                if answer.answer and not answer.reading:
                    self._parts.reservations.fork(handle, answer.prompt_length, answer.answer)
            self._parts.loop.submit(*answers)

    def _decode(self, token_ids: list[int]) -> str:
        text: str = self._parts.tokenizer.decode(token_ids, skip_special_tokens=True)
        return text

    @property
    def _parts(self) -> _Parts:
        if self._started is None:
            raise TandemError(ErrorCode.NOT_READY, "the engine has not started")
        return self._started
