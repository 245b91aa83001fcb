"""Streams of one attempt: whatever the reader of them does, none is left open."""

from __future__ import annotations

import asyncio

from inference.contracts.generation import Finished, StreamEvent, TokenDelta, WorkerTimings
from inference.contracts.states import FinishReason
from inference.process.tasks import Background
from inference.router.travel.legs import Leg, Legs
from inference.router.workers.client import EventStream

END = Finished(
    reason=FinishReason.STOP, text="", prompt_tokens=1, cached_tokens=0, completion_tokens=1, timings=WorkerTimings()
)


class Stream:
    """A worker's stream of `tokens` tokens. closed: nothing holds it any more."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self.asked = 0
        self.closed = asyncio.Event()

    async def events(self) -> EventStream:
        try:
            for _ in range(self._tokens):
                self.asked += 1
                yield TokenDelta(token_ids=(1,), text="a")
            self.asked += 1
            yield END
        finally:
            self.closed.set()


async def test_an_answer_that_nobody_takes_any_more_is_let_go_even_when_it_is_complete() -> None:
    """The client leaves while the inbox is full and the closing event is the next to go in."""
    for tokens in range(60, 70):
        legs, stream = Legs(Background()), Stream(tokens)
        legs.open(Leg.ANSWER, stream.events())
        for _ in range(10):
            await asyncio.sleep(0)
        assert stream.asked >= 60
        legs.close()
        async with asyncio.timeout(5):
            await stream.closed.wait()


async def test_after_the_closing_event_the_stream_is_read_out_and_not_cut() -> None:
    legs, stream = Legs(Background()), Stream(1)
    legs.open(Leg.ANSWER, stream.events())
    seen: list[StreamEvent] = [(await legs.next())[1], (await legs.next())[1]]
    legs.close()
    assert seen[-1] == END
    async with asyncio.timeout(5):
        await stream.closed.wait()
