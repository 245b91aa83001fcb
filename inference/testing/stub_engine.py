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
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np

from inference.contracts.abilities import Abilities
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import ChosenLogprob, TokenLogprob
from inference.contracts.prompts import Prompt
from inference.contracts.reports import WorkerLoad
from inference.contracts.sampling import JsonGrammar, Sampling
from inference.contracts.states import FinishReason, Role
from inference.contracts.timings import Counter, Latency, Window
from inference.engine.first_token import generate_one_token
from inference.engine.interface import Digest, EngineInfo, KVHandle, KVMemory, Progress, Sink, Token, TokenIds
from inference.testing.faults import FaultKind, FaultPlan, FaultPoint
from inference.testing.stub_kv import KV_BYTES_PER_TOKEN, LAYERS, StubKV
from inference.testing.stub_model import EOS_ID, StubModel
from inference.testing.stub_settings import StubSettings
from inference.testing.stub_text import AnswerText


@dataclass(eq=False)
class _Answer:
    """One of the answers of a request. made: its tokens so far."""

    number: int
    text: AnswerText
    made: int = 0
    finished: bool = False


@dataclass(eq=False)
class _Request:
    handle: KVHandle
    token_ids: list[int]
    sampling: Sampling
    sink: Sink
    only_prefill: bool = False
    report_progress: bool = False
    by_layer: bool = False
    computed: int = 0
    started: bool = False
    answers: list[_Answer] = field(init=False)

    def __post_init__(self) -> None:
        self.answers = [_Answer(number, AnswerText(self.sampling.stop)) for number in range(self.sampling.n)]
        self.computed = self.computed or self.handle.cached_tokens

    @property
    def prompt_length(self) -> int:
        """Without the answer so far that it may end with."""
        return len(self.token_ids) - self.sampling.answered

    @property
    def read(self) -> bool:
        return self.computed == len(self.token_ids)


class StubEngine:
    """See the module. crash: ends the process, or what stands for one in a test. kv: its cache, for tests to touch."""

    def __init__(
        self,
        settings: StubSettings | None = None,
        *,
        model_name: str = "stub",
    ) -> None:
        self.settings = settings or StubSettings()
        self.faults = FaultPlan(self.settings.faults)
        self.crash: Callable[[], None] = lambda: os._exit(137)
        self._model_name = model_name
        self.kv = StubKV(self.settings.kv_blocks, self.settings.block_size)
        self._requests: deque[_Request] = deque()
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._beat = time.monotonic()
        self._beginnings: set[tuple[str, tuple[int, ...]]] = set()
        self._window = Window(second=0, source="", deployment="")
        self.failure: str | None = None

    @property
    def _model(self) -> StubModel:
        return StubModel(self.settings)  # which a test may exchange at any time

    # -- life ------------------------------------------------------------------------------------

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(
            model_name=self._model_name,
            fingerprint=f"{self.settings.fingerprint}/block{self.settings.block_size}",
            context_length=self.settings.context_length,
            vocab_size=self._model.vocab_size,
            block_size=self.settings.block_size,
            kv_blocks_total=self.kv.total,
            kv_bytes_per_token=KV_BYTES_PER_TOKEN,
            layers=LAYERS,
            tool_format=self.settings.tool_format,
            abilities=Abilities(vocab_size=self._model.vocab_size, chat=True),
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

    def switch_role(self, role: Role) -> None:
        self._refuse(FaultPoint.SWITCH)
        generate_one_token(self, within_s=5)

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
                kv_blocks_used=self.kv.used,
                kv_blocks_total=self.kv.total,
            )

    def drain_window(self, window: Window) -> None:
        with self._lock:
            measured, self._window = self._window, Window(second=0, source="", deployment="")
        window.absorb(measured)

    # -- prompts and blocks ----------------------------------------------------------------------

    def tokenize(self, prompt: Prompt) -> list[int]:
        return self._model.tokenize(prompt)

    def detokenize(self, token_ids: TokenIds) -> str:
        return b"".join(self._model.piece(token_id) for token_id in token_ids).decode(errors="replace")

    def check(self, sampling: Sampling) -> None:
        """Takes everything but a grammar whose schema is no JSON; follows none."""
        schema = sampling.grammar.schema if isinstance(sampling.grammar, JsonGrammar) else "{}"
        try:
            msgspec.json.decode(schema)
        except msgspec.DecodeError as error:
            raise TandemError(
                ErrorCode.INVALID_REQUEST, f"the schema is no JSON: {error}", "response_format"
            ) from error

    def reserve(self, capacity: int, prompt: TokenIds = (), *, answers: int = 1, salt: str = "") -> KVHandle:
        handle = self.kv.reserve(capacity * answers)
        cached = self._cached(tuple(prompt), salt) if self.settings.prefix_cache else 0
        if cached:
            self.kv.compute(handle, list(prompt), 0, cached)
        return replace(handle, cached_tokens=cached)

    def _cached(self, prompt: tuple[int, ...], salt: str) -> int:
        """Tokens of whole blocks that an earlier prompt of the same salt began with; from now on `prompt` is one."""
        size = self.settings.block_size
        beginnings = [(salt, prompt[:end]) for end in range(size, len(prompt), size)]
        known = [len(tokens) for salt, tokens in beginnings if (salt, tokens) in self._beginnings]
        self._beginnings.update(beginnings)
        return max(known, default=0)

    def release(self, handle: KVHandle) -> None:
        self.kv.release(handle)
        with self._lock:
            self._requests = deque(r for r in self._requests if r.handle != handle)

    @property
    def kv_memory(self) -> KVMemory | None:
        return self.kv.memory

    def kv_spans(self, handle: KVHandle, start: int, end: int) -> list[tuple[int, int]]:
        return self.kv.spans(handle, start, end)

    def export_kv(self, handle: KVHandle, layers: range, start: int, end: int) -> list[memoryview]:
        self._refuse(FaultPoint.MID_TRANSFER)
        return self.kv.export(handle, layers, start, end)

    def import_kv(
        self,
        handle: KVHandle,
        layers: range,
        start: int,
        end: int,
        data: memoryview | np.ndarray,
        digest: Digest | None = None,
    ) -> None:
        self._refuse(FaultPoint.MID_TRANSFER)
        self.kv.take_in(handle, layers, start, end, data)
        if digest is not None:
            for row in self.kv.export(handle, layers, start, end):
                digest.update(row)

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
        request = _Request(handle, token_ids, sampling, sink, only_prefill=True, report_progress=report_progress)
        request.by_layer = by_layer
        self._submit(self._answered(request))

    def generate(
        self, handle: KVHandle, token_ids: list[int], sampling: Sampling, sink: Sink, *, priority: int = 0
    ) -> None:
        self._submit(self._answered(_Request(handle, token_ids, sampling, sink)))

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
        request = self._answered(_Request(handle, token_ids, sampling, sink, computed=len(token_ids)))
        for answer, first_token in zip(request.answers, first_tokens, strict=True):
            answer.made += 1
            answer.finished = self._token(request, answer, first_token).finish is not None
        self._submit(request)
        return sum(not answer.finished for answer in request.answers)

    def _answered(self, request: _Request) -> _Request:
        """Where the prompt ends with the answer so far, go on after that; its text was given elsewhere."""
        for token_id in request.token_ids[request.prompt_length :]:
            for answer in request.answers:
                answer.made += 1
                self._token(request, answer, token_id)
        return request

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
        if not request.started:
            request.started = True
            request.sink.started()
            if request.report_progress and request.computed:
                request.sink.progress(Progress(start=0, end=request.computed, done=False))

    def _prefill_step(self, request: _Request) -> None:
        if request.computed == 0:
            self._refuse(FaultPoint.BEFORE_PREFILL)
        elif request.report_progress:
            self._struck(FaultPoint.MID_TRANSFER, FaultKind.CRASH, FaultKind.HANG, FaultKind.SLOW)
        start = request.computed
        end = min(start + self.settings.prefill_chunk_tokens, len(request.token_ids))
        self._stopping.wait(self.settings.prefill_s_per_token * (end - start))
        if not self.kv.compute(request.handle, request.token_ids, start, end):
            return
        request.computed = end
        with self._lock:
            self._window.count(Counter.PROMPT_TOKENS, end - start)
        if request.report_progress:
            for layers in [range(layer, layer + 1) for layer in range(LAYERS)] if request.by_layer else [None]:
                request.sink.progress(Progress(start=start, end=end, done=request.read, layers=layers))
        if request.read:
            self._refuse(FaultPoint.AFTER_PREFILL)
            self._emit(request)

    def _decode_step(self, request: _Request) -> None:
        self._refuse(FaultPoint.MID_DECODE)
        self._emit(request)

    def _emit(self, request: _Request) -> None:
        """Draw the next token of each answer from the request's KV, and end the request where its last answer ends."""
        kv = self.kv.content(request.handle, request.prompt_length)
        if kv is None:
            return
        tokens = []
        for answer in request.answers:
            if not answer.finished:
                token_id = self._model.draw(kv, request.sampling, answer.made, answer.number)
                answer.made += 1
                tokens.append(self._token(request, answer, token_id))
                answer.finished = tokens[-1].finish is not None
        with self._lock:
            self._window.count(Counter.OUTPUT_TOKENS, len(tokens))
            if request.only_prefill or all(answer.finished for answer in request.answers):
                with contextlib.suppress(ValueError):
                    self._requests.remove(request)
        for token in tokens:
            request.sink.token(token)

    def _token(self, request: _Request, answer: _Answer, token_id: int) -> Token:
        if token_id == EOS_ID:
            return Token(token_id, answer.text.flush(), FinishReason.STOP, answer.number)
        piece = self._model.piece(token_id)
        logprob = _logprob(piece, request.sampling.logprobs)
        text, stopped = answer.text.feed(piece)
        if stopped:
            return Token(token_id, text, FinishReason.STOP, answer.number, logprob)
        if answer.made >= request.sampling.max_tokens:
            return Token(token_id, text + answer.text.flush(), FinishReason.LENGTH, answer.number, logprob)
        return Token(token_id, text, None, answer.number, logprob)

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
            self.crash()
        if fault.kind is FaultKind.DIE:
            self.die(f"the loop died at {point} (planted)")
        elif fault.kind is not FaultKind.REFUSE:
            self._stopping.wait(fault.seconds if fault.kind is FaultKind.SLOW else None)
        return fault.kind in (FaultKind.REFUSE, FaultKind.DIE)

    def _start_count(self) -> int:
        """Which start this is, counting those of earlier processes that share `starts_file`."""
        if self.settings.starts_file is None:
            return 1
        path = Path(self.settings.starts_file)
        count = int(path.read_text()) + 1 if path.exists() else 1
        path.write_text(str(count))
        return count


def _logprob(piece: bytes, top: int | None) -> ChosenLogprob | None:
    """The stub is always half sure, and sees nothing beside its token."""
    if top is None:
        return None
    own = TokenLogprob(token=piece.decode(errors="replace"), logprob=-0.5, bytes=tuple(piece))
    return ChosenLogprob(token=own.token, logprob=own.logprob, bytes=own.bytes, top_logprobs=(own,) if top else ())
