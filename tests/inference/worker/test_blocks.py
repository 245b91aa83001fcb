import asyncio

import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.testing.stub_engine import StubEngine
from inference.testing.stub_settings import StubSettings
from inference.worker.blocks import BlockQueue


@pytest.fixture
def engine() -> StubEngine:
    return StubEngine(StubSettings(kv_blocks=4))


async def test_free_blocks_are_given_at_once(engine):
    queue = BlockQueue(engine.reserve)
    assert (await queue.reserve([7] * 20, "", 0.0)).capacity == 32
    assert (queue.waiting, queue.waiting_tokens) == (0, 0)


async def test_the_wait_is_bounded_and_visible(engine):
    queue = BlockQueue(engine.reserve)
    engine.reserve(64)
    waiting = asyncio.create_task(queue.reserve([7] * 30, "", 0.05))
    await asyncio.sleep(0.01)
    assert (queue.waiting, queue.waiting_tokens) == (1, 30)
    with pytest.raises(TandemError) as refused:
        await waiting
    assert refused.value.code is ErrorCode.KV_FULL
    assert (queue.waiting, queue.waiting_tokens) == (0, 0)


async def test_what_can_never_fit_does_not_wait(engine):
    with pytest.raises(TandemError) as refused:
        await BlockQueue(engine.reserve).reserve([7] * 65, "", 60)
    assert refused.value.code is ErrorCode.CONTEXT_LENGTH_EXCEEDED


async def test_nobody_overtakes_a_big_request(engine):
    queue = BlockQueue(engine.reserve)
    taken = [engine.reserve(16) for _ in range(4)]
    done: list[str] = []

    async def want(name: str, tokens: int) -> None:
        await queue.reserve([7] * tokens, "", 5)
        done.append(name)

    big = asyncio.create_task(want("big", 48))
    await asyncio.sleep(0)
    small = asyncio.create_task(want("small", 16))
    for handle in taken:
        engine.release(handle)
        await asyncio.sleep(0.02)
    await asyncio.gather(big, small)
    assert done == ["big", "small"]


async def test_who_leaves_the_line_holds_nothing(engine):
    queue = BlockQueue(engine.reserve)
    taken = engine.reserve(64)
    waiting = asyncio.create_task(queue.reserve([7] * 16, "", 60))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    engine.release(taken)
    await asyncio.sleep(0.03)
    assert engine.load().kv_blocks_used == 0
