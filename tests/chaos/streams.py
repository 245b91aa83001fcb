"""A steady load of streamed answers, each read to its end and judged by what the client saw."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

import aiohttp

PROMPTS = tuple(
    f"Question {number}: " + "the quick brown fox jumps over the lazy dog. " * number for number in range(3, 13)
)
#: Tokens of an answer, and how often: most are short, some go on for a drain's length.
_LENGTHS = (20, 20, 30, 40, 40, 60, 60, 100, 150, 400)


class Ending(StrEnum):
    """WHOLE: all that was asked for. REFUSED: an error answer before any text. TOLD: broken off with an error in the
    stream. SILENT: broken off without a word. CUT: the connection to the router broke. WRONG: not the right text."""

    WHOLE = "whole"
    REFUSED = "refused"
    TOLD = "told"
    SILENT = "silent"
    CUT = "cut"
    WRONG = "wrong"


@dataclass
class Stream:
    """Times are monotonic."""

    name: str
    prompt: str
    tokens: int
    started: float
    ended: float = 0.0
    text: str = ""
    finish: str | None = None
    usage: int | None = None
    done: bool = False
    ending: Ending = Ending.WHOLE
    detail: str = ""


class Load:
    """`slots` clients, each asking again as soon as it was answered, in a thread of its own."""

    def __init__(self, *, router_url: str, key: str, model: str, seed: int, slots: int = 10) -> None:
        self._url = f"{router_url}/v1/chat/completions"
        self._headers = {"Authorization": f"Bearer {key}"}
        self._model = model
        self._random = random.Random(f"load {seed}")
        self._slots = slots
        self._stopping = threading.Event()
        self._known: dict[str, str] = {}
        self.broken: list[Stream] = []
        self.count: Counter[Ending] = Counter()
        self.under_way: set[str] = set()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, within_s: float = 60.0) -> None:
        """Ask no more, and wait until everything that runs is answered."""
        self._stopping.set()
        self._thread.join(within_s)
        if self._thread.is_alive():
            raise AssertionError(f"streams do not end: {sorted(self.under_way)}")

    async def _run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=120, sock_read=90)
        async with aiohttp.ClientSession(timeout=timeout, headers=self._headers) as session:
            await asyncio.gather(*(self._slot(session, slot) for slot in range(self._slots)))

    async def _slot(self, session: aiohttp.ClientSession, slot: int) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            stream = Stream(
                name=f"chaos-{slot}-{number}",
                prompt=self._random.choice(PROMPTS),
                tokens=self._random.choice(_LENGTHS),
                started=time.monotonic(),
            )
            self.under_way.add(stream.name)
            await self._ask(session, stream)
            self.under_way.discard(stream.name)
            stream.ended = time.monotonic()
            self.count[stream.ending] += 1
            if stream.ending is not Ending.WHOLE:
                self.broken.append(stream)
                await asyncio.sleep(0.5)
            await asyncio.sleep(self._random.uniform(0.05, 0.3))

    async def _ask(self, session: aiohttp.ClientSession, stream: Stream) -> None:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": stream.prompt}],
            "max_tokens": stream.tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "ignore_eos": True,
        }
        try:
            async with session.post(self._url, json=body, headers={"X-Request-Id": stream.name}) as answer:
                if answer.status != 200:
                    stream.ending, stream.detail = Ending.REFUSED, f"{answer.status} {(await answer.text())[:300]}"
                    return
                async for line in answer.content:
                    if line.startswith(b"data: "):
                        self._take(stream, line[6:].strip())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            stream.ending, stream.detail = Ending.CUT, f"{type(error).__name__}: {error}"
            return
        self._judge(stream)

    def _take(self, stream: Stream, data: bytes) -> None:
        if data == b"[DONE]":
            stream.done = True
            return
        said = json.loads(data)
        if "error" in said:
            stream.ending, stream.detail = Ending.TOLD, json.dumps(said["error"])
            return
        if said.get("usage"):
            stream.usage = said["usage"]["completion_tokens"]
        for choice in said.get("choices", []):
            stream.text += choice["delta"].get("content") or ""
            stream.finish = choice.get("finish_reason") or stream.finish

    def _judge(self, stream: Stream) -> None:
        known = self._known.get(stream.prompt, "")
        if not (known.startswith(stream.text) or stream.text.startswith(known)):
            stream.ending, stream.detail = Ending.WRONG, f"{stream.text[:200]!r} is not {known[:200]!r}"
        elif stream.ending is Ending.WHOLE:
            if not stream.done:
                stream.ending = Ending.SILENT
            elif (stream.finish, stream.usage) != ("length", stream.tokens):
                stream.ending = Ending.WRONG
                stream.detail = f"finish {stream.finish!r}, {stream.usage} tokens of {stream.tokens}"
            else:
                self._known[stream.prompt] = max(known, stream.text, key=len)
