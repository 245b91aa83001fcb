"""The bench itself: stubs, clients and judgement, on one event loop and without any router."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from inference.contracts.states import Role
from tests.bench.router import picking, stub_vllm
from tests.bench.router.answers import TOKENS
from tests.bench.router.fronts import Front
from tests.bench.router.latency import quantile
from tests.bench.router.load import Caller, Callers, Refused, arrivals, chat_request, post, side_by_side
from tests.bench.router.memory import FLAT, Look, growth
from tests.bench.router.straight import straight
from tests.bench.router.stub_server import Answer, port_of, serve
from tests.bench.router.stub_tandem import StubWorker

Start = Callable[[Answer], Awaitable[int]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts a stub worker and tells its port."""
    async with contextlib.AsyncExitStack() as servers:

        async def started(answer: Answer) -> int:
            return port_of(await servers.enter_async_context(await serve(answer)))

        yield started


@pytest.mark.parametrize("model", ["burst", "paced"])
async def test_a_caller_counts_the_tokens_of_a_stream_however_it_is_cut(start: Start, model: str) -> None:
    port = await start(stub_vllm.answer)
    caller = Caller()
    await caller.connect(port)
    for number in range(3):
        seen = await caller.stream(chat_request(port, model, number, "k"))
        assert seen.tokens == TOKENS + 1  # the role's event has a text of its own, which is empty
        assert seen.first_s is not None
        assert seen.whole_s is not None
        assert seen.whole_s >= seen.first_s
    caller.close()


async def test_a_caller_that_leaves_has_the_first_token_and_no_more_of_the_connection(start: Start) -> None:
    port = await start(stub_vllm.answer)
    callers = Callers(port)
    async with callers.one() as caller:
        seen = await caller.stream(chat_request(port, "held", 0, "k"), leave=True)
    assert seen.first_s is not None
    assert seen.whole_s is None
    async with callers.one() as another:
        assert another is not caller
    callers.close()


async def test_a_refusal_is_no_answer(start: Start) -> None:
    port = await start(StubWorker("decode-0", Role.DECODE).answer)
    caller = Caller()
    await caller.connect(port)
    with pytest.raises(Refused, match="404"):
        await caller.ask(post(port, "/worker/dance", b"{}", "Bearer x"))
    caller.close()


@pytest.mark.parametrize("name", ["Tandem", "vllm-router, round_robin"])
async def test_requests_can_be_sent_straight_to_the_workers_of_each_router(start: Start, name: str) -> None:
    ports = {str(role): [await start(StubWorker(f"{role}-0", role).answer)] for role in (Role.PREFILL, Role.DECODE)}
    ports["vllm"] = [await start(stub_vllm.answer) for _ in range(2)]
    front = Front(name, 0, None, None, ports)  # type: ignore[arg-type]
    asked = straight(front)
    assert await asked.one(1) > 0
    asked.close()


async def test_so_many_are_under_way_at_once_and_no_more() -> None:
    running, most, done = 0, 0, []

    async def one(number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        done.append(number)

    await side_by_side(10, 3, one)
    assert most == 3
    assert sorted(done) == list(range(10))


async def test_arrivals_do_not_wait_for_each_other() -> None:
    release, arrived = asyncio.Event(), []

    async def one(number: int) -> None:
        arrived.append(number)
        if len(arrived) == 5:
            release.set()
        await release.wait()

    await arrivals(2000.0, 0.1, one, random.Random(1))
    assert len(arrived) >= 5


def test_a_quantile_is_the_value_of_its_rank() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert quantile([1.0], 0.99) == 1.0


def test_every_choice_is_timed() -> None:
    assert len(picking.measure(workers=3, decisions=20)) == 20


def test_memory_that_grows_in_a_step_and_wavers_is_flat_and_a_leak_of_100_bytes_is_not() -> None:
    rng = random.Random(1)

    def looks(leak: int) -> list[Look]:
        """A step of 2 MiB after a third, and memory is mapped in pieces of 1 MiB."""
        used = ((at, 70 + (at >= 33_000) * 2 + rng.uniform(0, 0.1)) for at in range(0, 100_000, 1000))
        return [Look(at, at / 1000, mib + leak * at // 2**20) for at, mib in used]

    assert abs(growth(looks(leak=0))) < FLAT
    assert growth(looks(leak=100)) > 5 * FLAT
