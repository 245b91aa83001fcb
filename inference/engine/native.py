"""The built-in engine on torch and transformers: see `Engine` for what each method promises."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from typing import Any

import structlog
import torch

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Prompt, Sampling
from inference.contracts.reports import WorkerLoad
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role
from inference.contracts.timings import Window
from inference.engine import chat
from inference.engine.batch_loop import BatchLoop
from inference.engine.block_manager import BlockManager
from inference.engine.fingerprint import digest_files, fingerprint
from inference.engine.first_token import generate_one_token
from inference.engine.gate import probe_geometry
from inference.engine.interface import EngineInfo, KVHandle, Sink
from inference.engine.kv_cache import KVCache, KVGeometry
from inference.engine.loader import LoadedModel, load
from inference.engine.model_runner import ModelRunner
from inference.engine.reservations import Reservations
from inference.engine.scheduler import Scheduler
from inference.engine.self_check import check_against_reference
from inference.engine.sequence import Sequence
from inference.engine.text_stream import TextStream

log = structlog.get_logger()

#: Longest that the first token may take; big models on few cores take seconds.
_FIRST_TOKEN_S = 120.0

_LEAST = {"block_size": 1, "max_running": 1, "prefill_chunk_tokens": 0, "threads": 0}


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a started engine consists of."""

    info: EngineInfo
    tokenizer: Any
    eos_ids: frozenset[int]
    blocks: BlockManager
    reservations: Reservations
    cache: KVCache
    loop: BatchLoop


class NativeEngine:
    """An `Engine` for any Hugging Face decoder model that the gate lets pass.

    model_path: a local directory or a hub id, and then of `revision` (empty: the hub's default). device: "cpu" or
    "cuda:<index>". threads: torch CPU threads where `settings.threads` is 0; 0 here too takes the cores that this
    process may use.
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
        _check(self._settings)
        torch.set_num_threads(self._threads)
        if self._device.type == "cuda" and not torch.cuda.is_available():
            raise RuntimeError(f"this worker was given {self._device}, but torch sees no CUDA device")
        loaded = load(self._model_path, self._settings.dtype, self._device, self._revision)
        with torch.inference_mode():
            geometry = probe_geometry(loaded.model, self._device)
            check_against_reference(loaded.model, geometry, self._device)
        self._started = self._assemble(loaded, geometry)
        self._started.loop.start()
        try:
            generate_one_token(self, _FIRST_TOKEN_S)
        except BaseException:
            self.stop()
            raise
        self._log.info("engine ready", dtype=str(loaded.dtype), threads=self._threads, **asdict(self.info))

    def _assemble(self, loaded: LoadedModel, geometry: KVGeometry) -> _Parts:
        info = _describe(self._model_name, loaded, geometry, self._settings)
        blocks = BlockManager(info.kv_blocks_total)
        reservations = Reservations(blocks, info.block_size)
        cache = KVCache(geometry, info.kv_blocks_total * info.block_size, loaded.dtype, self._device)
        loop = BatchLoop(
            ModelRunner(loaded.model, self._device),
            cache,
            reservations,
            Scheduler(self._settings.max_running, self._settings.prefill_chunk_tokens),
            prepare_thread=lambda: torch.set_num_threads(self._threads),
        )
        return _Parts(info, loaded.tokenizer, loaded.eos_ids, blocks, reservations, cache, loop)

    def switch_role(self, role: Role) -> None:
        """Weights, cache and loop serve every role alike, so only the proof is left to do."""
        generate_one_token(self, _FIRST_TOKEN_S)
        self._log = self._log.bind(role=role)
        self._log.info("engine changed its role")

    def stop(self) -> None:
        if self._started is not None:
            self._started.loop.stop()

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
            kv_blocks_used=parts.blocks.used,
            kv_blocks_total=parts.blocks.total,
        )

    def drain_window(self, window: Window) -> None:
        """Adds latency STEP and counters PROMPT_TOKENS (computed here) and OUTPUT_TOKENS (made here)."""
        self._parts.loop.drain_window(window)

    # -- prompts and blocks ----------------------------------------------------------------------

    def tokenize(self, prompt: Prompt) -> list[int]:
        return chat.tokenize(self._parts.tokenizer, prompt, self._parts.info.vocab_size)

    def reserve(self, capacity: int) -> KVHandle:
        return self._parts.reservations.reserve(capacity)

    def release(self, handle: KVHandle) -> None:
        self._parts.loop.abort(handle)
        self._parts.reservations.release(handle)

    def export_kv(self, handle: KVHandle, layers: range, start: int, end: int) -> memoryview:
        with self._parts.reservations.pin(handle) as slot_map, torch.inference_mode():
            return self._parts.cache.export_bytes(slot_map, layers, start, end)

    def import_kv(self, handle: KVHandle, layers: range, start: int, end: int, data: memoryview) -> None:
        with self._parts.reservations.pin(handle) as slot_map, torch.inference_mode():
            self._parts.cache.import_bytes(slot_map, layers, start, end, data)

    # -- requests --------------------------------------------------------------------------------

    def prefill(
        self, handle: KVHandle, token_ids: list[int], sampling: Sampling, sink: Sink, *, report_progress: bool
    ) -> None:
        sequence = self._sequence(handle, token_ids, sampling, sink)
        sequence.prefill_only = True
        sequence.report_progress = report_progress
        self._submit(sequence, len(token_ids))

    def generate(self, handle: KVHandle, token_ids: list[int], sampling: Sampling, sink: Sink) -> None:
        self._submit(self._sequence(handle, token_ids, sampling, sink), len(token_ids) + sampling.max_tokens - 1)

    def resume(
        self, handle: KVHandle, token_ids: list[int], first_tokens: tuple[int, ...], sampling: Sampling, sink: Sink
    ) -> None:
        (first_token,) = first_tokens
        sequence = self._sequence(handle, token_ids, sampling, sink)
        if sequence.text.push(first_token).finish is not None:
            raise ValueError("the answer ended with its first token: there is nothing to go on with")
        sequence.token_ids.append(first_token)
        sequence.computed = len(token_ids)
        self._submit(sequence, len(token_ids) + sampling.max_tokens - 1)

    def _sequence(self, handle: KVHandle, token_ids: list[int], sampling: Sampling, sink: Sink) -> Sequence:
        if sampling.max_tokens < 1:
            raise TandemError(
                ErrorCode.INVALID_REQUEST, f"max_tokens is {sampling.max_tokens}, not 1 or more", "max_tokens"
            )
        chat.check_ids(token_ids, self._parts.info.vocab_size)
        return Sequence(
            handle=handle,
            token_ids=list(token_ids),
            sampling=sampling,
            sink=sink,
            text=TextStream(self._decode, self._parts.eos_ids, sampling),
            prompt_length=len(token_ids),
        )

    def _submit(self, sequence: Sequence, tokens: int) -> None:
        """Queue `sequence`, which will leave KV of `tokens` tokens."""
        if tokens > sequence.handle.capacity:
            raise ValueError(f"{tokens} tokens do not fit a reservation of {sequence.handle.capacity}")
        with self._parts.reservations.pin(sequence.handle):
            self._parts.loop.submit(sequence)

    def _decode(self, token_ids: list[int]) -> str:
        text: str = self._parts.tokenizer.decode(token_ids, skip_special_tokens=True)
        return text

    @property
    def _parts(self) -> _Parts:
        if self._started is None:
            raise TandemError(ErrorCode.NOT_READY, "the engine has not started")
        return self._started


def _check(settings: EngineSettings) -> None:
    """Refuse settings that no model can be run with.

    Raises:
        TandemError(INVALID_REQUEST): names the field.
    """
    for name, least in (_LEAST | {"kv_tokens": settings.block_size}).items():
        value = getattr(settings, name)
        if value < least:
            raise TandemError(ErrorCode.INVALID_REQUEST, f"{name} is {value}; the least is {least}", name)


def _describe(model_name: str, loaded: LoadedModel, geometry: KVGeometry, settings: EngineSettings) -> EngineInfo:
    """What the engine will be.

    Raises:
        TandemError(INVALID_REQUEST): `max_model_len` is more than the model was made for.
    """
    blocks = settings.kv_tokens // settings.block_size
    own = loaded.context_length
    if settings.max_model_len is not None and own is not None and settings.max_model_len > own:
        raise TandemError(
            ErrorCode.INVALID_REQUEST,
            f"max_model_len is {settings.max_model_len}, but the model was made for {own} tokens",
            "max_model_len",
        )
    limits = [blocks * settings.block_size, settings.max_model_len, own]
    dtype_name = str(loaded.dtype).removeprefix("torch.")
    return EngineInfo(
        model_name=model_name,
        fingerprint=fingerprint(
            loaded.config,
            geometry,
            dtype_name,
            settings.block_size,
            loaded.eos_ids,
            digest_files(loaded.directory),
        ),
        context_length=min(limit for limit in limits if limit is not None),
        vocab_size=loaded.config.vocab_size,
        block_size=settings.block_size,
        kv_blocks_total=blocks,
        kv_bytes_per_token=geometry.bytes_per_token(loaded.dtype),
        layers=geometry.layers,
    )
