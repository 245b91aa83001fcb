"""transformers' continuous batching, with a manager that is kept from one measurement to the next."""

from __future__ import annotations

import time
from typing import Any

from tests.bench.peers.protocol import median_gap, serve, together

#: Tokens of a page (its default), pages, and tokens computed in one step: a whole prompt beside running answers. A step
#: of more prompts at once would only cost it more, as its attention computes the scores of all tokens with all keys.
_PAGE, _PAGES, _STEP_TOKENS = 256, 80, 528
_DEADLINE_S = 300.0


class Continuous:
    def __init__(self, model: str, options: dict[str, Any]) -> None:
        import torch
        from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig

        torch.set_num_threads(options["threads"])
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, options["dtype"])).eval()
        with torch.inference_mode():
            self._manager = loaded.init_continuous_batching(
                generation_config=GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0),
                continuous_batching_config=ContinuousBatchingConfig(
                    page_size=_PAGE,
                    num_blocks=_PAGES,
                    max_batch_tokens=_STEP_TOKENS,
                    allow_block_sharing=False,
                    scheduler_type="prefill_first",
                ),
            )
            self._manager.start()

    def prompt(self, prompt: list[int]) -> float:
        began = time.perf_counter()
        ((first, *_),) = self._times([prompt], 1)
        return first - began

    def step(self, prompts: list[list[int]], steps: int) -> float:
        # The first answers run ahead while the last prompts are read.
        moments = together(self._times(prompts, steps + len(prompts)))
        if len(moments) <= 1:
            raise RuntimeError("there was no step in which all answers ran")
        return median_gap(moments)

    def _times(self, prompts: list[list[int]], tokens: int) -> list[list[float]]:
        """When each token of each answer came, by the manager's own notes."""
        names = self._manager.add_requests(prompts, max_new_tokens=tokens, record_timestamps=True)
        deadline = time.monotonic() + _DEADLINE_S
        waiting, times = set(names), []
        while waiting:
            made = self._manager.get_result(timeout=1.0)
            if time.monotonic() > deadline or not self._manager.is_running():
                raise TimeoutError(f"{len(waiting)} answers did not come")
            if made is None:
                continue
            if made.error is not None or len(made.generated_tokens) != tokens:
                raise RuntimeError(f"{made.request_id}: {len(made.generated_tokens)} tokens; {made.error}")
            waiting.discard(made.request_id)
            times.append(made.timestamps)
        return times


if __name__ == "__main__":
    serve(Continuous)
