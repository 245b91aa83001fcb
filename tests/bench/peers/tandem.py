"""Tandem's engine. Options beside dtype and threads: `chunk`, tokens of a prompt's chunk (0: whole prompts)."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.bench.peers.protocol import serve

_KV_TOKENS = 12_288


class Tandem:
    def __init__(self, model: str, options: dict[str, Any]) -> None:
        from inference.contracts.specs import EngineSettings
        from inference.contracts.states import Role
        from inference.engine.native import NativeEngine

        settings = EngineSettings(
            dtype=options["dtype"],
            threads=options["threads"],
            kv_tokens=_KV_TOKENS,
            prefill_chunk_tokens=options.get("chunk", 0),
            prefix_cache=False,
        )
        self._engine = NativeEngine(model, "bench", Role.UNIFIED, settings)
        self._engine.start()

    def prompt(self, prompt: list[int]) -> float:
        from inference.engine.measure import prompt_seconds

        return prompt_seconds(self._engine, len(prompt), prompt[0])

    def step(self, prompts: list[list[int]], steps: int, sampling: dict[str, Any] | None = None) -> float:
        from inference.contracts.sampling import Sampling
        from inference.engine.measure import step_seconds

        chosen = msgspec.convert({"max_tokens": 1, "temperature": 0.0, **(sampling or {})}, Sampling)
        return step_seconds(self._engine, len(prompts), len(prompts[0]), steps, prompts[0][0], chosen)


if __name__ == "__main__":
    serve(Tandem)
