"""Engine against `transformers.generate`: the same prompts, lengths and threads, turn by turn in one process.

Prompts have equal lengths, which is the best case of `generate` (no padding).
"""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path
from typing import Any

PROMPT_TOKENS = 128
ANSWER_TOKENS = 48
BATCHES = (1, 4, 8)
ROUNDS = 3


class _Wait:
    """Sink of one request that only says when it is over."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.tokens: list[int] = []
        self.error: Exception | None = None

    def started(self) -> None: ...

    def progress(self, progress: Any) -> None: ...

    def token(self, token: Any) -> None:
        self.tokens.append(token.token_id)
        if token.finish is not None:
            self.over.set()

    def failed(self, error: Exception) -> None:
        self.error = error
        self.over.set()


def measure(model_path: Path, threads: int) -> list[dict[str, float]]:
    """Rows of batch size, tokens per second of both (medians of rounds), and their ratio."""
    import torch
    from transformers import AutoModelForCausalLM

    from inference.contracts.generation import Sampling
    from inference.contracts.specs import EngineSettings
    from inference.contracts.states import Role
    from inference.engine.native import NativeEngine

    settings = EngineSettings(kv_tokens=8192, prefill_chunk_tokens=0, threads=threads)
    engine = NativeEngine(str(model_path), "bench", Role.UNIFIED, settings, device="cpu", threads=threads)
    engine.start()
    reference = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(0)
    sampling = Sampling(max_tokens=ANSWER_TOKENS, temperature=0.0, ignore_eos=True)
    rows = []
    try:
        for batch in BATCHES:
            prompts = torch.randint(1000, 40000, (batch, PROMPT_TOKENS), generator=generator)
            ours, theirs = [], []
            for _ in range(ROUNDS):
                ours.append(_time_engine(engine, prompts.tolist(), sampling))
                theirs.append(_time_generate(reference, prompts))
            tokens = batch * ANSWER_TOKENS
            engine_rate, generate_rate = tokens / statistics.median(ours), tokens / statistics.median(theirs)
            rows.append(
                {"batch": batch, "engine": engine_rate, "generate": generate_rate, "ratio": engine_rate / generate_rate}
            )
    finally:
        engine.stop()
    return rows


def _time_engine(engine: Any, prompts: list[list[int]], sampling: Any) -> float:
    begin = time.perf_counter()
    waits = []
    for prompt in prompts:
        wait = _Wait()
        handle = engine.reserve(len(prompt) + ANSWER_TOKENS)
        engine.generate(handle, prompt, sampling, wait)
        waits.append((handle, wait))
    for handle, wait in waits:
        if not wait.over.wait(300) or wait.error is not None or len(wait.tokens) != ANSWER_TOKENS:
            raise RuntimeError(f"the engine gave {len(wait.tokens)} tokens: {wait.error}")
        engine.release(handle)
    return time.perf_counter() - begin


def _time_generate(model: Any, prompts: Any) -> float:
    import torch

    begin = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=False,
            min_new_tokens=ANSWER_TOKENS,
            max_new_tokens=ANSWER_TOKENS,
        )
    if out.shape[1] != PROMPT_TOKENS + ANSWER_TOKENS:
        raise RuntimeError(f"generate gave {out.shape[1] - PROMPT_TOKENS} tokens")
    return time.perf_counter() - begin
