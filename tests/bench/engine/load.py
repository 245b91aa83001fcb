"""Clients of one scenario: eight answers being written all the time, and long prompts arriving at a fixed pace.

Prompts are random token ids from a seeded generator, so nothing can be reused between them.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.bench.engine.fleet import KEY, MODEL

STEADY_STREAMS = 8
STEADY_PROMPT_TOKENS = 64
STEADY_ANSWER_TOKENS = 1400
ARRIVAL_PROMPT_TOKENS = 512
ARRIVAL_ANSWER_TOKENS = 16
ARRIVAL_EVERY_S = 2.0
VOCABULARY = range(1000, 40000)


@dataclass
class Measured:
    """What the clients saw in the measured time; seconds."""

    seconds: float
    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)
    steady_itl: list[float] = field(default_factory=list)
    handoff_bytes: list[int] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)
    output_tokens: float = 0.0
    failures: int = 0

    @property
    def output_tokens_per_s(self) -> float:
        return self.output_tokens / self.seconds


async def apply_load(
    router_url: str, written: Callable[[], float], *, warm_up_s: float, seconds: float, seed: int = 0
) -> Measured:
    """Run the clients for `warm_up_s` and then, measured, for `seconds`.

    written: tokens that the workers have written so far, by their own counters.
    """
    rng = random.Random(seed)
    measured = Measured(seconds=seconds)
    begin = time.perf_counter() + warm_up_s
    end = begin + seconds
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        router_url, connector=connector, headers={"Authorization": f"Bearer {KEY}"}
    ) as session:
        steady = [
            asyncio.create_task(_steady(session, _ids(rng, STEADY_PROMPT_TOKENS), begin, end, measured))
            for _ in range(STEADY_STREAMS)
        ]
        arrivals = []
        await asyncio.sleep(warm_up_s)
        before = await asyncio.to_thread(written)
        number = 0
        while (due := begin + number * ARRIVAL_EVERY_S) < end - ARRIVAL_EVERY_S:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            arrivals.append(asyncio.create_task(_arrival(session, _ids(rng, ARRIVAL_PROMPT_TOKENS), measured)))
            number += 1
        await asyncio.sleep(max(0.0, end - time.perf_counter()))
        measured.output_tokens = await asyncio.to_thread(written) - before
        await asyncio.wait(arrivals, timeout=60)
        for task in [*steady, *arrivals]:
            task.cancel()
        await asyncio.gather(*steady, *arrivals, return_exceptions=True)
    return measured


def _ids(rng: random.Random, count: int) -> list[int]:
    return [rng.choice(VOCABULARY) for _ in range(count)]


async def _steady(session: aiohttp.ClientSession, ids: list[int], begin: float, end: float, measured: Measured) -> None:
    """One answer after the other; gaps between chunks that arrive in the measured time are kept."""
    while True:
        last: float | None = None
        async for _ in _chunks(session, ids, STEADY_ANSWER_TOKENS):
            now = time.perf_counter()
            if last is not None and begin <= now <= end:
                measured.steady_itl.append(now - last)
            last = now


async def _arrival(session: aiohttp.ClientSession, ids: list[int], measured: Measured) -> None:
    sent = time.perf_counter()
    times: list[float] = []
    timings: dict[str, Any] = {}
    try:
        async for chunk in _chunks(session, ids, ARRIVAL_ANSWER_TOKENS):
            if "path" in chunk:
                timings = chunk
            else:
                times.append(time.perf_counter())
    except aiohttp.ClientError:
        measured.failures += 1
        return
    if not times or not timings:
        measured.failures += 1
        return
    measured.ttft.append(times[0] - sent)
    measured.tpot.append(timings["tpot_s"])
    if timings.get("handoff_bytes"):
        measured.handoff_bytes.append(timings["handoff_bytes"])
        measured.prompt_tokens.append(timings["prompt_tokens"])


async def _chunks(session: aiohttp.ClientSession, ids: list[int], answer_tokens: int) -> AsyncIterator[dict[str, Any]]:
    """Chunks with text of a streamed completion as parsed JSON, then its timings (which count tokens exactly; a token
    that holds back its text gives no chunk)."""
    body = {
        "model": MODEL, "prompt": ids, "max_tokens": answer_tokens, "temperature": 0, "stream": True,
        "ignore_eos": True,
    }  # fmt: skip
    timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
    async with session.post(
        "/v1/completions", json=body, headers={"X-Tandem-Timings": "1"}, timeout=timeout
    ) as response:
        response.raise_for_status()
        async for line in response.content:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                raise aiohttp.ClientPayloadError(str(chunk["error"]))
            if "path" in chunk or any(choice.get("finish_reason") is None for choice in chunk.get("choices", [])):
                yield chunk
