"""A hundred prompts of all kinds, answered by three ways of serving and by `generate`: how many answers are the same.

python -m tests.bench.engine.equality MODEL    prints JSON: way -> answers that are `generate`'s, token for token

The workers are real servers on real ports, KV travels by the real hand-off, and all ways run at once in mixed batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from inference.contracts.prompts import Prompt
from inference.contracts.reports import Address
from inference.contracts.sampling import Sampling
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role
from inference.engine.native import NativeEngine
from inference.testing.fleet import SECRET, stub_spec
from inference.testing.worker_client import Answer, WorkerClient
from inference.worker.limits import WorkerLimits
from inference.worker.server import WorkerServer
from tests.inference.engine.test_real_model import HUNDRED

ANSWER, CHUNK = 12, 100
#: Requests of each way at a time. Two of the ways share a worker, which takes 32 by default.
TOGETHER = 14
_GREEDY = Sampling(max_tokens=ANSWER, temperature=0.0)

Ask = Callable[[Prompt], Awaitable[Answer]]


async def count(model: Path) -> dict[str, int]:
    prompts = random.Random(1).sample(HUNDRED, len(HUNDRED))
    async with WorkerClient(SECRET) as client, contextlib.AsyncExitStack() as stack:
        engine, chunked = await stack.enter_async_context(_worker(model, Role.UNIFIED, 0, CHUNK))
        _, prefill = await stack.enter_async_context(_worker(model, Role.PREFILL, 1, CHUNK))
        _, decode = await stack.enter_async_context(_worker(model, Role.DECODE, 2, 0))
        ways: dict[str, Ask] = {
            "disaggregated": lambda prompt: client.answer_by_handoff(prefill, decode, prompt, _GREEDY),
            "unified": lambda prompt: client.answer_here(decode, prompt, _GREEDY),
            "chunked": lambda prompt: client.answer_here(chunked, prompt, _GREEDY),
        }
        token_ids = [engine.tokenize(prompt) for prompt in prompts]
        expected, *answers = await asyncio.gather(
            asyncio.to_thread(_generate, model, token_ids), *(_answers(ask, prompts) for ask in ways.values())
        )
    return {way: sum(map(list.__eq__, expected, found)) for way, found in zip(ways, answers, strict=True)}


@contextlib.asynccontextmanager
async def _worker(model: Path, role: Role, number: int, chunk: int) -> AsyncIterator[tuple[NativeEngine, Address]]:
    settings = EngineSettings(
        dtype="float32", threads=1, kv_tokens=8192, prefill_chunk_tokens=chunk, prefix_cache=False
    )
    engine = NativeEngine(str(model), "stub", role, settings)
    server = WorkerServer(stub_spec(role, number), engine, SECRET, WorkerLimits())
    try:
        address = await server.listen()
        if not await server.load():
            raise RuntimeError(f"{role}: {server.worker.state.failure}")
        yield engine, address
    finally:
        await server.stop()


async def _answers(ask: Ask, prompts: list[Prompt]) -> list[list[int]]:
    turn = asyncio.Semaphore(TOGETHER)

    async def one(prompt: Prompt) -> list[int]:
        async with turn:
            return list((await ask(prompt)).token_ids)

    return await asyncio.gather(*map(one, prompts))


def _generate(model: Path, prompts: list[list[int]]) -> list[list[int]]:
    import torch
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    with torch.inference_mode():
        return [
            loaded.generate(torch.tensor([ids]), max_new_tokens=ANSWER, do_sample=False)[0, len(ids) :].tolist()
            for ids in prompts
        ]


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # logs are no answer
    print(json.dumps({"of": len(HUNDRED), "equal": asyncio.run(count(Path(sys.argv[1])))}), file=answers)
