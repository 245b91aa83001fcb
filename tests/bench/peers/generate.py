"""transformers' `generate` over equal lengths (its best case: no padding), and its plain forward pass for prompts."""

from __future__ import annotations

import time
from typing import Any

from tests.bench.peers.protocol import median_gap, serve


class Generate:
    def __init__(self, model: str, options: dict[str, Any]) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(options["threads"])
        self._torch = torch
        self._model = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, options["dtype"])).eval()

    def prompt(self, prompt: list[int]) -> float:
        with self._torch.inference_mode():
            began = time.perf_counter()
            self._model(self._torch.tensor([prompt]), use_cache=True, logits_to_keep=1)
            return time.perf_counter() - began

    def step(self, prompts: list[list[int]], steps: int) -> float:
        times: list[float] = []

        def note(ids: object, _scores: object, **_: object) -> object:
            times.append(time.perf_counter())
            return self._torch.zeros(len(prompts), dtype=self._torch.bool)

        ids = self._torch.tensor(prompts)
        with self._torch.inference_mode():
            self._model.generate(
                ids,
                attention_mask=self._torch.ones_like(ids),
                do_sample=False,
                min_new_tokens=steps + 1,
                max_new_tokens=steps + 1,
                stopping_criteria=[note],
            )
        return median_gap(times)


if __name__ == "__main__":
    serve(Generate)
