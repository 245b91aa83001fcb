"""vLLM for CPUs, in an environment of its own."""

from __future__ import annotations

import os
import time
from typing import Any

from tests.bench.peers.protocol import median_gap, serve


class Vllm:
    def __init__(self, model: str, options: dict[str, Any]) -> None:
        cores = sorted(os.sched_getaffinity(0))[: options["threads"]]
        os.environ |= {
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": ",".join(str(core) for core in cores),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        from vllm import LLM

        self._llm = LLM(
            model,
            dtype=options["dtype"],
            max_model_len=2048,
            enforce_eager=True,
            enable_prefix_caching=False,
            max_num_batched_tokens=8192,
        )
        self._asked = 0

    def prompt(self, prompt: list[int]) -> float:
        began = time.perf_counter()
        self._run([prompt], 1)
        return time.perf_counter() - began

    def step(self, prompts: list[list[int]], steps: int) -> float:
        # The first step or steps read prompts; the median over the rest is that of steps that only write.
        return median_gap(self._run(prompts, steps + len(prompts))[-steps:])

    def _run(self, prompts: list[list[int]], tokens: int) -> list[float]:
        """When each step of the engine ended."""
        from vllm import SamplingParams

        engine = self._llm.llm_engine
        sampling = SamplingParams(
            temperature=0.0, max_tokens=tokens, min_tokens=tokens, ignore_eos=True, detokenize=False
        )
        for prompt in prompts:
            self._asked += 1
            engine.add_request(str(self._asked), {"prompt_token_ids": prompt}, sampling)
        times: list[float] = []
        while engine.has_unfinished_requests():
            engine.step()
            times.append(time.perf_counter())
        return times


if __name__ == "__main__":
    serve(Vllm)
