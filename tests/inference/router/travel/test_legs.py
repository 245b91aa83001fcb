"""Streams of one attempt: what is read at once comes at once, silence has an end, and none is left open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Finished, StreamEvent, StreamFailed, TokenDelta, WorkerTimings
from inference.contracts.states import FinishReason
from inference.router.travel.legs import Leg, LegFailed, Legs

END = Finished(
    reason=FinishReason.STOP, text="", prompt_tokens=1, cached_tokens=0, completion_tokens=1, timings=WorkerTimings()
)
TOKEN = TokenDelta(token_ids=(1,), text="a")


class Stream:
    """A worker's stream, as far as `tell` was called."""

    def __init__(self) -> None:
        self.tell: Callable[[list[StreamEvent] | TandemError], None]
        self.closed = False
        self.paused = False

    def begin(self, sink: Callable[[list[StreamEvent] | TandemError], None]) -> None:
        self.tell = sink

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


@pytest.fixture
def streams() -> tuple[Stream, Stream]:
    return Stream(), Stream()


async def opened(streams: tuple[Stream, Stream]) -> Legs:
    legs = Legs()
    legs.open(Leg.ANSWER, streams[0])
    legs.open(Leg.PREFILL, streams[1])
    return legs


async def test_what_was_read_at_once_comes_at_once_and_in_order(streams: tuple[Stream, Stream]) -> None:
    legs = await opened(streams)
    streams[1].tell([TOKEN])
    streams[0].tell([TOKEN, TOKEN, END])
    assert await legs.next() == (Leg.PREFILL, [TOKEN])
    assert await legs.next() == (Leg.ANSWER, [TOKEN, TOKEN, END])
    waiting = asyncio.ensure_future(legs.next())
    await asyncio.sleep(0)
    streams[1].tell([END])
    assert await waiting == (Leg.PREFILL, [END])
    legs.close()


async def test_what_came_before_a_failure_counts(streams: tuple[Stream, Stream]) -> None:
    legs = await opened(streams)
    streams[0].tell([TOKEN, StreamFailed(code="engine_failed", message="gone")])
    assert await legs.next() == (Leg.ANSWER, [TOKEN])
    with pytest.raises(LegFailed, match=r"answer: .*gone"):
        await legs.next()
    legs.close()


async def test_a_leg_that_is_silent_past_its_deadline_has_failed(streams: tuple[Stream, Stream]) -> None:
    legs = await opened(streams)
    legs.expect(Leg.ANSWER, 0.02)
    legs.expect(Leg.PREFILL, 60.0)
    with pytest.raises(LegFailed) as failed:
        await legs.next()
    assert failed.value.leg is Leg.ANSWER
    assert failed.value.error.code is ErrorCode.DEADLINE_EXCEEDED
    legs.close()


async def test_each_event_moves_the_deadline_on(streams: tuple[Stream, Stream]) -> None:
    legs = await opened(streams)
    loop = asyncio.get_running_loop()
    legs.expect(Leg.ANSWER, 0.05)
    for _ in range(4):
        loop.call_later(0.03, streams[0].tell, [TOKEN])
        await legs.next()
        legs.expect(Leg.ANSWER, 0.05)
    with pytest.raises(LegFailed):
        await legs.next()
    legs.close()


async def test_an_earlier_deadline_than_the_one_that_is_waited_for_holds(streams: tuple[Stream, Stream]) -> None:
    legs = await opened(streams)
    legs.expect(Leg.ANSWER, 60.0)
    asyncio.get_running_loop().call_soon(streams[0].tell, [TOKEN])
    await legs.next()
    legs.expect(Leg.PREFILL, 0.02)
    async with asyncio.timeout(5):
        with pytest.raises(LegFailed) as failed:
            await legs.next()
    assert failed.value.leg is Leg.PREFILL
    legs.close()


async def test_nothing_is_expected_of_a_leg_that_is_excused(streams: tuple[Stream, Stream]) -> None:
    legs = await opened(streams)
    legs.expect(Leg.PREFILL, 0.01)
    legs.excuse(Leg.PREFILL)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await legs.next()
    legs.close()


async def test_workers_wait_while_much_is_unread(streams: tuple[Stream, Stream]) -> None:
    legs = await opened(streams)
    for _ in range(300):
        streams[0].tell([TOKEN])
    assert streams[0].paused
    for _ in range(300):
        await legs.next()
    assert not streams[0].paused
    legs.close()


async def test_all_streams_are_closed_with_the_legs_whatever_is_unread(streams: tuple[Stream, Stream]) -> None:
    legs = await opened(streams)
    streams[0].tell([TOKEN, END])
    legs.close()
    assert all(stream.closed for stream in streams)
