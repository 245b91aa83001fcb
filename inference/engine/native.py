"""The built-in engine on torch and transformers: see `Engine` for what each method promises."""

from __future__ import annotations

import os
import time
from functools import partial

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


class NativeEngine:
    """An `Engine` for any Hugging Face decoder model that the gate lets pass.

    model_path: a local directory or a hub id. device: "cpu" or "cuda:<index>". threads: torch CPU threads where
    `settings.threads` is 0; 0 here too takes the cores that this process may use.
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
    ) -> None:
        self._model_path = model_path
        self._model_name = model_name
        self._settings = settings
        self._device = torch.device(device)
        self._threads = settings.threads or threads or len(os.sched_getaffinity(0))
        self._log = log.bind(model=model_name, role=role)
        self._built = time.monotonic()
        self._loop: BatchLoop | None = None

    # -- life ------------------------------------------------------------------------------------

    @property
    def info(self) -> EngineInfo:
        return self._info

    def start(self) -> None:
        torch.set_num_threads(self._threads)
        if self._device.type == "cuda" and not torch.cuda.is_available():
            raise RuntimeError(f"this worker was given {self._device}, but torch sees no CUDA device")
        loaded = load(self._model_path, self._settings.dtype, self._device)
        with torch.inference_mode():
            geometry = probe_geometry(loaded.model, self._device)
            check_against_reference(loaded.model, geometry, self._device)
        self._info = _describe(self._model_name, loaded, geometry, self._settings)
        self._blocks = BlockManager(self._info.kv_blocks_total)
        self._reservations = Reservations(self._blocks, self._info.block_size)
        slots = self._info.kv_blocks_total * self._info.block_size
        self._cache = KVCache(geometry, slots, loaded.dtype, self._device)
        self._tokenizer = loaded.tokenizer
        self._eos_ids = loaded.eos_ids
        self._decode = partial(loaded.tokenizer.decode, skip_special_tokens=True)
        self._loop = BatchLoop(
            ModelRunner(loaded.model, self._device),
            self._cache,
            self._reservations,
            Scheduler(self._settings.max_running, self._settings.prefill_chunk_tokens),
            prepare_thread=lambda: torch.set_num_threads(self._threads),
        )
        self._loop.start()
        self._log.info(
            "engine ready",
            device=str(self._device),
            dtype=str(loaded.dtype),
            threads=self._threads,
            kv_tokens=slots,
            kv_bytes_per_token=self._info.kv_bytes_per_token,
            fingerprint=self._info.fingerprint,
        )

    def stop(self) -> None:
        if self._loop is not None:
            self._loop.stop()

    @property
    def failure(self) -> str | None:
        return None if self._loop is None else self._loop.failure

    def heartbeat_age(self) -> float:
        return time.monotonic() - self._built if self._loop is None else self._loop.heartbeat_age()

    def load(self) -> WorkerLoad:
        running, waiting, waiting_tokens = self._running.queue()
        return WorkerLoad(
            running=running,
            waiting=waiting,
            waiting_tokens=waiting_tokens,
            kv_blocks_used=self._blocks.used,
            kv_blocks_total=self._blocks.total,
        )

    def drain_window(self, window: Window) -> None:
        """Adds latencies STEP and QUEUE and counters PROMPT_TOKENS (computed here) and OUTPUT_TOKENS (made here)."""
        self._running.drain_window(window)

    # -- prompts and blocks ----------------------------------------------------------------------

    def tokenize(self, prompt: Prompt) -> list[int]:
        return chat.tokenize(self._tokenizer, prompt, self._info.vocab_size)

    def reserve(self, capacity: int) -> KVHandle:
        return self._reservations.reserve(capacity)

    def release(self, handle: KVHandle) -> None:
        self._running.abort(handle)
        self._reservations.release(handle)

    def export_kv(self, handle: KVHandle, layers: range, start: int, end: int) -> memoryview:
        with self._reservations.pin(handle) as slot_map, torch.inference_mode():
            return self._cache.export_bytes(slot_map, layers, start, end)

    def import_kv(self, handle: KVHandle, layers: range, start: int, end: int, data: memoryview) -> None:
        with self._reservations.pin(handle) as slot_map, torch.inference_mode():
            self._cache.import_bytes(slot_map, layers, start, end, data)

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

    def resume(self, handle: KVHandle, token_ids: list[int], first_token: int, sampling: Sampling, sink: Sink) -> None:
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
        chat.check_ids(token_ids, self._info.vocab_size)
        return Sequence(
            handle=handle,
            token_ids=list(token_ids),
            sampling=sampling,
            sink=sink,
            text=TextStream(self._decode, self._eos_ids, sampling),
            prompt_length=len(token_ids),
        )

    def _submit(self, sequence: Sequence, tokens: int) -> None:
        """Queue `sequence`, which will leave KV of `tokens` tokens."""
        if tokens > sequence.handle.capacity:
            raise ValueError(f"{tokens} tokens do not fit a reservation of {sequence.handle.capacity}")
        with self._reservations.pin(sequence.handle):
            self._running.submit(sequence)

    @property
    def _running(self) -> BatchLoop:
        if self._loop is None:
            raise TandemError(ErrorCode.NOT_READY, "the engine has not started")
        return self._loop


def _describe(model_name: str, loaded: LoadedModel, geometry: KVGeometry, settings: EngineSettings) -> EngineInfo:
    """What the engine will be.

    Raises:
        TandemError(INVALID_REQUEST): settings that contradict the model or each other.
    """
    blocks = settings.kv_tokens // settings.block_size
    if blocks < 1:
        raise TandemError(
            ErrorCode.INVALID_REQUEST,
            f"kv_tokens is {settings.kv_tokens}, less than one block of {settings.block_size} tokens",
            "kv_tokens",
        )
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
