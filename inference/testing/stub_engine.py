"""An engine without a model, for tests and rehearsals: everything an `Engine` does, in microseconds and without torch.

Its KV cache is real memory: every prompt token writes bytes that depend on its id and place, and the answer is drawn
from the bytes that lie in the request's blocks. So KV that was damaged, mixed up or never arrived gives another answer,
exactly as with a model, while right KV gives the same answer on every stub with the same settings.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import xxhash

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import ChatPrompt, Prompt, Sampling, TextPrompt
from inference.contracts.reports import WorkerLoad
from inference.contracts.states import FinishReason
from inference.contracts.timings import Counter, Latency, Window
from inference.engine.interface import EngineInfo, KVHandle, Progress, Sink, Token
from inference.testing.faults import Fault, FaultKind, FaultPlan, FaultPoint
from inference.testing.stub_text import AnswerText

LAYERS, KV_HEADS, HEAD_BYTES = 2, 2, 8
KV_BYTES_PER_TOKEN = LAYERS * 2 * KV_HEADS * HEAD_BYTES
EOS_ID = 256
_FIRST_WORD_ID = 257
_WORDS = tuple(
    b" " + word
    for word in (
        b"alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa quebec "
        b"romeo sierra tango uniform victor whiskey xray yankee zulu".split()
        + "één naïve 한국 日本 🙂 👩\u200d🚀".encode().split()
    )
)
_ROLES = frozenset({"system", "user", "assistant"})


class StubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a stub behaves.

    prefill_s_per_token, decode_s_per_token: pretended compute time; a decode step serves all running requests.
    pieces: the answer, token by token and then end-of-sequence; None answers with words drawn from the prompt's KV.
    answer_tokens: words before end-of-sequence; None goes on until max_tokens.
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
    fingerprint: str = "stub-1"
    load_s: float = 0.0
    fail_starts: int = 0
    starts_file: str | None = None
    fatal_start: str | None = None
    faults: tuple[Fault, ...] = ()


@dataclass(eq=False)
class _Request:
    handle: KVHandle
    token_ids: list[int]
    sampling: Sampling
    sink: Sink
    only_prefill: bool = False
    report_progress: bool = False
    computed: int = 0
    made: int = 0
    started: bool = False
    text: AnswerText = field(init=False)

    def __post_init__(self) -> None:
        self.text = AnswerText(self.sampling.stop)

    @property
    def read(self) -> bool:
        return self.computed == len(self.token_ids)


class StubEngine:
    """See the module. `crash` ends the process, or what stands for one in a test."""

    def __init__(
        self,
        settings: StubSettings | None = None,
        *,
        model_name: str = "stub",
        crash: Callable[[], None] | None = None,
    ) -> None:
        self.settings = settings or StubSettings()
        self.faults = FaultPlan(self.settings.faults)
        self._crash = crash or (lambda: os._exit(137))
        self._model_name = model_name
        self._pieces = self.settings.pieces or ()
        slots = self.settings.kv_blocks * self.settings.block_size
        self._arena = np.zeros((LAYERS, 2, KV_HEADS, slots, HEAD_BYTES), dtype=np.uint8)
        self._free = list(range(self.settings.kv_blocks))
        self._slots: dict[int, np.ndarray] = {}
        self._handles = 0
        self._requests: deque[_Request] = deque()
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._beat = time.monotonic()
        self._window = Window(second=0, source="", deployment="")
        self.failure: str | None = None

    # -- life ------------------------------------------------------------------------------------

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(
            model_name=self._model_name,
            fingerprint=f"{self.settings.fingerprint}/block{self.settings.block_size}",
            context_length=self.settings.context_length,
            vocab_size=_FIRST_WORD_ID + len(_WORDS) + len(self._pieces),
            block_size=self.settings.block_size,
            kv_blocks_total=self.settings.kv_blocks,
            kv_bytes_per_token=KV_BYTES_PER_TOKEN,
            layers=LAYERS,
        )

    def start(self) -> None:
        if self.settings.fatal_start is not None:
            raise TandemError(ErrorCode.INVALID_REQUEST, self.settings.fatal_start, "model_path")
        self._stopping.wait(self.settings.load_s)
        if self._start_count() <= self.settings.fail_starts:
            raise MemoryError("out of memory while loading weights (planted)")
        if self._struck(FaultPoint.START):
            raise RuntimeError("start refused (planted)")
        self._beat = time.monotonic()
        self._thread = threading.Thread(target=self._loop, name="stub-engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5)
        self._fail_all("the engine was stopped")

    def die(self, reason: str) -> None:
        """What a device that broke down does to an engine."""
        self.failure = reason
        self._stopping.set()
        self._wake.set()
        self._fail_all(reason)

    def _fail_all(self, reason: str) -> None:
        with self._lock:
            left, self._requests = list(self._requests), deque()
        for request in left:
            request.sink.failed(TandemError(ErrorCode.ENGINE_FAILED, reason))

    def heartbeat_age(self) -> float:
        return time.monotonic() - self._beat

    def load(self) -> WorkerLoad:
        with self._lock:
            running = sum(request.read for request in self._requests)
            return WorkerLoad(
                running=min(running, self.settings.max_running),
                waiting=len(self._requests) - min(running, self.settings.max_running),
                waiting_tokens=sum(len(r.token_ids) - r.computed for r in self._requests),
                kv_blocks_used=self.settings.kv_blocks - len(self._free),
                kv_blocks_total=self.settings.kv_blocks,
            )

    def drain_window(self, window: Window) -> None:
        with self._lock:
            measured, self._window = self._window, Window(second=0, source="", deployment="")
        window.absorb(measured)

    # -- prompts and blocks ----------------------------------------------------------------------

    def tokenize(self, prompt: Prompt) -> list[int]:
        """One token per UTF-8 byte; chat as "<role>content" lines and "<assistant>"."""
        if isinstance(prompt, ChatPrompt):
            for message in prompt.messages:
                if message.role not in _ROLES:
                    raise TandemError(ErrorCode.INVALID_REQUEST, f"unknown role {message.role!r}", "messages")
            lines = [f"<{message.role}>{message.content}\n" for message in prompt.messages]
            ids = list("".join([*lines, "<assistant>"]).encode()) if lines else []
        elif isinstance(prompt, TextPrompt):
            ids = list(prompt.text.encode())
        else:
            ids = list(prompt.token_ids)
            if any(not 0 <= i < self.info.vocab_size for i in ids):
                raise TandemError(
                    ErrorCode.INVALID_REQUEST, f"token ids must lie in 0..{self.info.vocab_size - 1}", "prompt"
                )
        if not ids:
            raise TandemError(ErrorCode.INVALID_REQUEST, "the prompt is empty", "prompt")
        return ids

    def reserve(self, capacity: int) -> KVHandle:
        blocks = -(-capacity // self.settings.block_size)
        if blocks > self.settings.kv_blocks:
            raise TandemError(
                ErrorCode.CONTEXT_LENGTH_EXCEEDED,
                f"{capacity} tokens need {blocks} KV blocks; this worker has {self.settings.kv_blocks} in all",
            )
        with self._lock:
            if blocks > len(self._free):
                raise TandemError(ErrorCode.KV_FULL, f"{blocks} KV blocks needed, {len(self._free)} free")
            mine, self._free = self._free[:blocks], self._free[blocks:]
            self._handles += 1
            size = self.settings.block_size
            self._slots[self._handles] = (np.array(mine)[:, None] * size + np.arange(size)).ravel()
            return KVHandle(handle_id=self._handles, capacity=blocks * size)

    def release(self, handle: KVHandle) -> None:
        with self._lock:
            slots = self._slots.pop(handle.handle_id, None)
            if slots is not None:
                self._free.extend((slots[:: self.settings.block_size] // self.settings.block_size).tolist())
            self._requests = deque(r for r in self._requests if r.handle.handle_id != handle.handle_id)

    def export_kv(self, handle: KVHandle, layers: range, start: int, end: int) -> memoryview:
        self._refuse(FaultPoint.MID_TRANSFER)
        with self._lock:
            slots = self._held(handle)[start:end]
            return memoryview(self._arena[layers.start : layers.stop, :, :, slots].tobytes())

    def import_kv(self, handle: KVHandle, layers: range, start: int, end: int, data: memoryview) -> None:
        self._refuse(FaultPoint.MID_TRANSFER)
        with self._lock:
            slots = self._held(handle)[start:end]
            shape = (len(layers), 2, KV_HEADS, len(slots), HEAD_BYTES)
            if len(slots) != end - start or data.nbytes != np.prod(shape):
                raise ValueError(f"{data.nbytes} bytes do not fit tokens [{start}, {end}) of {len(layers)} layers")
            self._arena[layers.start : layers.stop, :, :, slots] = np.frombuffer(data, np.uint8).reshape(shape)

    def _held(self, handle: KVHandle) -> np.ndarray:
        slots = self._slots.get(handle.handle_id)
        if slots is None:
            raise ValueError(f"KV handle {handle.handle_id} is not reserved (any more)")
        return slots

    # -- requests --------------------------------------------------------------------------------

    def prefill(
        self, handle: KVHandle, token_ids: list[int], sampling: Sampling, sink: Sink, *, report_progress: bool
    ) -> None:
        self._submit(_Request(handle, token_ids, sampling, sink, only_prefill=True, report_progress=report_progress))

    def generate(self, handle: KVHandle, token_ids: list[int], sampling: Sampling, sink: Sink) -> None:
        self._submit(_Request(handle, token_ids, sampling, sink))

    def resume(self, handle: KVHandle, token_ids: list[int], first_token: int, sampling: Sampling, sink: Sink) -> None:
        request = _Request(handle, token_ids, sampling, sink, computed=len(token_ids), made=1)
        request.text.feed(self._piece(first_token))
        self._submit(request)

    def _submit(self, request: _Request) -> None:
        with self._lock:
            self._requests.append(request)
        self._wake.set()

    # -- the loop --------------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._beat = time.monotonic()
            self._wake.clear()
            with self._lock:
                unread = next((r for r in self._requests if not r.read), None)
                running = [r for r in self._requests if r.read][: self.settings.max_running]
            if unread is None and not running:
                self._wake.wait(0.02)
                continue
            if running:
                self._stopping.wait(self.settings.decode_s_per_token)
                for request in running:
                    self._guarded(request, self._decode_step)
            if unread is not None:
                self._guarded(unread, self._prefill_step)
            with self._lock:
                self._window.observe(Latency.STEP, time.monotonic() - self._beat)

    def _guarded(self, request: _Request, step: Callable[[_Request], None]) -> None:
        """One step of one request; what it raises ends that request alone."""
        try:
            self._note_start(request)
            step(request)
        except TandemError as error:
            with self._lock, contextlib.suppress(ValueError):
                self._requests.remove(request)
            request.sink.failed(error)

    def _note_start(self, request: _Request) -> None:
        if request.started:
            return
        request.started = True
        request.sink.started()

    def _prefill_step(self, request: _Request) -> None:
        if request.computed == 0:
            self._refuse(FaultPoint.BEFORE_PREFILL)
        elif request.report_progress:
            self._struck(FaultPoint.MID_TRANSFER, FaultKind.CRASH, FaultKind.HANG, FaultKind.SLOW)
        start = request.computed
        end = min(start + self.settings.prefill_chunk_tokens, len(request.token_ids))
        self._stopping.wait(self.settings.prefill_s_per_token * (end - start))
        if not self._write_kv(request, start, end):
            return
        request.computed = end
        if request.report_progress:
            request.sink.progress(Progress(start=start, end=end, done=request.read))
        if request.read:
            self._refuse(FaultPoint.AFTER_PREFILL)
            self._emit(request)

    def _write_kv(self, request: _Request, start: int, end: int) -> bool:
        """KV of tokens [start, end): bytes drawn from each token's id, place and layer. False: released meanwhile."""
        rows = np.stack([_token_kv(request.token_ids[at], at) for at in range(start, end)], axis=3)
        with self._lock:
            slots = self._slots.get(request.handle.handle_id)
            if slots is None:
                return False
            self._arena[:, :, :, slots[start:end]] = rows
            self._window.count(Counter.PROMPT_TOKENS, end - start)
            return True

    def _decode_step(self, request: _Request) -> None:
        self._refuse(FaultPoint.MID_DECODE)
        self._emit(request)

    def _emit(self, request: _Request) -> None:
        """Draw the next token from the request's KV, and end the request where the answer ends."""
        with self._lock:
            slots = self._slots.get(request.handle.handle_id)
            if slots is None:
                return
            kv = self._arena[:, :, :, slots[: len(request.token_ids)]].tobytes()
            token_id = self._draw(kv, request.sampling, request.made)
            self._window.count(Counter.OUTPUT_TOKENS)
        request.made += 1
        token = self._token(request, token_id)
        if token.finish is not None or request.only_prefill:
            with self._lock, contextlib.suppress(ValueError):
                self._requests.remove(request)
        request.sink.token(token)

    def _draw(self, kv: bytes, sampling: Sampling, index: int) -> int:
        if self.settings.pieces is not None:
            ends = index >= len(self._pieces)
            token_id = _FIRST_WORD_ID + len(_WORDS) + index % max(1, len(self._pieces))
        else:
            ends = self.settings.answer_tokens is not None and index >= self.settings.answer_tokens
            seed = sampling.seed if sampling.temperature > 0 else 0
            drawn = xxhash.xxh3_64_intdigest(kv, seed=(seed * 1_000_003 + index) % 2**64)
            token_id = _FIRST_WORD_ID + drawn % len(_WORDS)
        return EOS_ID if ends and not sampling.ignore_eos else token_id

    def _token(self, request: _Request, token_id: int) -> Token:
        if token_id == EOS_ID:
            return Token(token_id, request.text.flush(), FinishReason.STOP)
        text, stopped = request.text.feed(self._piece(token_id))
        if stopped:
            return Token(token_id, text, FinishReason.STOP)
        if request.made >= request.sampling.max_tokens:
            return Token(token_id, text + request.text.flush(), FinishReason.LENGTH)
        return Token(token_id, text, None)

    def _piece(self, token_id: int) -> bytes:
        if token_id < EOS_ID:
            return bytes([token_id])
        if token_id == EOS_ID:
            return b""
        table = _WORDS + self._pieces
        return table[token_id - _FIRST_WORD_ID]

    # -- faults ----------------------------------------------------------------------------------

    def _refuse(self, point: FaultPoint) -> None:
        kinds = (FaultKind.REFUSE,) if point is FaultPoint.MID_TRANSFER else ()
        if self._struck(point, *kinds):
            raise TandemError(ErrorCode.ENGINE_FAILED, f"refused at {point} (planted)")

    def _struck(self, point: FaultPoint, *kinds: FaultKind) -> bool:
        """Act out the fault that strikes at `point`; True when the request is to be refused."""
        fault = self.faults.strike(point, *kinds)
        if fault is None:
            return False
        if fault.kind is FaultKind.CRASH:
            self._crash()
            self._stopping.wait()
        elif fault.kind is FaultKind.DIE:
            self.die(f"the loop died at {point} (planted)")
        elif fault.kind is FaultKind.HANG:
            self._stopping.wait()
        elif fault.kind is FaultKind.SLOW:
            self._stopping.wait(fault.seconds)
        return fault.kind in (FaultKind.REFUSE, FaultKind.DIE)

    def _start_count(self) -> int:
        """Which start this is, counting those of earlier processes that share `starts_file`."""
        if self.settings.starts_file is None:
            return 1
        path = Path(self.settings.starts_file)
        with contextlib.suppress(FileNotFoundError):
            count = int(path.read_text()) + 1
            path.write_text(str(count))
            return count
        path.write_text("1")
        return 1


def _token_kv(token_id: int, position: int) -> np.ndarray:
    """KV of one token, `[LAYERS, 2, KV_HEADS, HEAD_BYTES]` of uint8."""
    words = KV_BYTES_PER_TOKEN // 8
    seeds = [xxhash.xxh3_64_digest(position.to_bytes(4, "little"), seed=token_id * words + i) for i in range(words)]
    return np.frombuffer(b"".join(seeds), np.uint8).reshape(LAYERS, 2, KV_HEADS, HEAD_BYTES)
