"""Limits of keys over several router processes: the ledger, and those that ask it."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import structlog

from inference.router.admission.key_limits import Admission, KeyLimits, Quota, Rate, Refusal, Standing
from inference.router.admission.ledger import SOCKET, Ledger
from inference.router.admission.shared_limiter import SharedLimiter
from tests.inference.router.conftest import eventually

KEY = "k1"


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short one: the name of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="ledger-") as name:
        yield Path(name)


class House:
    """A ledger and limiters that ask it, as if each were in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.account = KeyLimits(2)
        self.own: list[KeyLimits] = []
        self._stack = AsyncExitStack()
        self._ledger = AsyncExitStack()

    async def open(self) -> None:
        await self._ledger.enter_async_context(Ledger(self.account, time.monotonic).served(self.directory))

    async def limiter(self, answers_within_s: float = 10.0) -> SharedLimiter:
        self.own.append(KeyLimits(2))
        limiter = SharedLimiter(self.own[-1], self.directory, answers_within_s, time.monotonic)
        await limiter.start()
        self._stack.push_async_callback(limiter.close)
        return limiter

    async def close(self) -> None:
        await self._stack.aclose()
        await self._ledger.aclose()


@pytest.fixture
async def house(directory: Path) -> AsyncIterator[House]:
    house = House(directory)
    await house.open()
    yield house
    await house.close()


async def entered(limiter: SharedLimiter, quota: Quota, tokens: int = 0) -> Admission:
    admission, _ = await limiter.enter(quota, 1, tokens)
    assert isinstance(admission, Admission), admission
    return admission


async def refused(limiter: SharedLimiter, quota: Quota, tokens: int = 0) -> Refusal:
    refusal, _ = await limiter.enter(quota, 1, tokens)
    assert isinstance(refusal, Refusal)
    return refusal


async def test_of_requests_that_come_to_all_at_once_exactly_the_limit_is_let_in(house: House) -> None:
    limiters = [await house.limiter() for _ in range(3)]
    quota = Quota(KEY, requests_per_minute=10)
    answers = await asyncio.gather(*(limiter.enter(quota, 1, 0) for limiter in limiters for _ in range(10)))

    granted = [admission for admission, _ in answers if isinstance(admission, Admission)]
    refusals = [refusal for refusal, _ in answers if isinstance(refusal, Refusal)]
    assert (len(granted), len(refusals)) == (10, 20)
    assert {refusal.code for refusal in refusals} == {"rate_limit_exceeded"}
    assert all(refusal.retry_after_s is not None and 1 <= refusal.retry_after_s <= 60 for refusal in refusals)


async def test_each_tells_how_the_key_stands_over_all(house: House) -> None:
    one, other = await house.limiter(), await house.limiter()
    quota = Quota(KEY, requests_per_minute=10, tokens_per_minute=100)
    await entered(one, quota, 30)
    _, standing = await other.enter(quota, 1, 20)

    assert standing.requests is not None
    assert standing.requests.remaining == 8
    assert standing.tokens == Rate(100, 50, pytest.approx(60.0, abs=1.0))


async def test_a_request_that_ends_makes_room_for_one_elsewhere(house: House) -> None:
    one, other = await house.limiter(), await house.limiter()
    quota = Quota(KEY, max_concurrent=1)
    admission = await entered(one, quota)
    assert (await refused(other, quota)).code == "concurrency_limit_exceeded"
    one.leave(admission)
    await eventually(lambda: house.account.live(KEY) == 0)
    await entered(other, quota)


async def test_what_a_request_used_is_put_right_at_the_ledger(house: House) -> None:
    one, other = await house.limiter(), await house.limiter()
    quota = Quota(KEY, tokens_per_minute=100, requests_per_minute=9)
    answered, failed, rejected = [await entered(one, quota, 30) for _ in range(3)]
    answered.used(10, 5)
    failed.answered_nothing(refused=False)
    rejected.answered_nothing(refused=True)
    for admission in (answered, failed, rejected):
        one.leave(admission)
    await eventually(lambda: house.account.live(KEY) == 0)
    assert (house.account.tokens(KEY), house.account.requests(KEY)) == (15, 2)
    await entered(other, quota, 85)


async def test_whatever_ends_a_process_gives_back_what_it_had(house: House) -> None:
    """Its requests did run: they count, and so does what was presumed of their tokens, of which nobody can tell."""
    dying, other = await house.limiter(), await house.limiter()
    quota = Quota(KEY, max_concurrent=2, requests_per_minute=10, tokens_per_minute=100)
    for _ in range(2):
        await entered(dying, quota, 20)
    await refused(other, quota)
    await dying.close()
    await eventually(lambda: house.account.live(KEY) == 0)
    assert (house.account.requests(KEY), house.account.tokens(KEY)) == (2, 40)
    await entered(other, quota)


async def test_keys_without_limits_are_not_asked_about(house: House) -> None:
    limiter = await house.limiter()
    admission = await entered(limiter, Quota(KEY))
    assert (house.own[0].live(KEY), house.account.live(KEY)) == (1, 0)
    limiter.leave(admission)
    assert house.own[0].live(KEY) == 0


async def test_without_a_ledger_each_counts_for_itself_and_says_so_once(directory: Path) -> None:
    house = House(directory)
    with structlog.testing.capture_logs() as logs:
        one, other = await house.limiter(0.05), await house.limiter(0.05)
        quota = Quota(KEY, requests_per_minute=2)
        for limiter in (one, other):
            for _ in range(2):
                await entered(limiter, quota)
            await refused(limiter, quota)
    assert sum("the ledger is away" in entry["event"] for entry in logs) == 2, "of each of the two"
    await house.close()


async def test_a_ledger_that_comes_back_is_told_what_runs(directory: Path) -> None:
    house = House(directory)
    one, other = await house.limiter(0.05), await house.limiter(0.05)
    quota = Quota(KEY, max_concurrent=1)
    admission = await entered(one, quota)
    await house.open()
    await eventually(lambda: house.account.live(KEY) == 1)
    await eventually(lambda: one._there and other._there)
    await refused(other, quota)
    one.leave(admission)
    await eventually(lambda: house.account.live(KEY) == 0)
    await entered(other, quota)
    await house.close()


class Gate:
    """In front of a ledger, whose answers it holds back while it is closed."""

    def __init__(self, directory: Path) -> None:
        self.behind = directory / "behind"
        self.behind.mkdir()
        self._front = directory / SOCKET
        self.open = asyncio.Event()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._attend, self._front)
        yield
        server.close()

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, asks = await asyncio.open_unix_connection(self.behind / SOCKET)
        await asyncio.gather(self._pass_on(reader, asks), self._pass_on(answers, writer, self.open))

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, opened: asyncio.Event | None = None
    ) -> None:
        while line := await reader.readline():
            if opened is not None:
                await opened.wait()
            writer.write(line)
        writer.close()


@pytest.fixture
async def gate(directory: Path, house: House) -> AsyncIterator[Gate]:
    """Closed, between the house's ledger and its limiters."""
    (directory / SOCKET).unlink()
    gate = Gate(directory)
    async with Ledger(house.account, time.monotonic).served(gate.behind), gate.served():
        yield gate


async def test_what_is_let_in_before_the_ledger_is_heard_counts_there_as_what_it_let_in(
    house: House, gate: Gate
) -> None:
    """Between Hello and Welcome the ledger is there, and the process does not know: it decides alone, and tells."""
    quota = Quota(KEY, max_concurrent=2, requests_per_minute=10, tokens_per_minute=100)
    limiter = await house.limiter(0.05)  # it waits no longer to hear the ledger
    limiter._answers_within_s = 10.0
    await eventually(lambda: limiter._writer is not None)
    running, ended = await entered(limiter, quota, 30), await entered(limiter, quota, 20)
    assert not limiter._there
    await eventually(lambda: house.account.live(KEY) == 2)
    assert (house.account.requests(KEY), house.account.tokens(KEY)) == (2, 50)
    ended.answered_nothing(refused=True)
    limiter.leave(ended)
    await eventually(lambda: house.account.live(KEY) == 1)
    assert (house.account.requests(KEY), house.account.tokens(KEY)) == (1, 30)

    gate.open.set()
    await eventually(lambda: limiter._there)
    other = await house.limiter()
    await entered(other, quota, 10)
    assert (await refused(other, quota)).code == "concurrency_limit_exceeded"
    running.used(15, 5)
    limiter.leave(running)
    await eventually(lambda: house.account.live(KEY) == 1)
    assert (house.account.requests(KEY), house.account.tokens(KEY)) == (2, 30)


async def test_a_process_that_dies_before_it_heard_the_ledger_leaves_nothing_running(house: House, gate: Gate) -> None:
    limiter = await house.limiter(0.05)
    limiter._answers_within_s = 10.0
    await eventually(lambda: limiter._writer is not None)
    await entered(limiter, Quota(KEY, max_concurrent=1))
    await eventually(lambda: house.account.live(KEY) == 1)
    await limiter.close()
    gate.open.set()
    await eventually(lambda: house.account.live(KEY) == 0)


@asynccontextmanager
async def deaf_ledger(directory: Path) -> AsyncIterator[None]:
    """It welcomes whoever comes, and hears nothing more."""

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"type":"welcome"}\n')
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(attend, directory / SOCKET)
    yield
    server.close()


async def test_a_request_waits_for_a_deaf_ledger_no_longer_than_it_may(directory: Path) -> None:
    async with deaf_ledger(directory):
        house = House(directory)
        limiter = await house.limiter(0.05)
        await entered(limiter, Quota(KEY, requests_per_minute=1))
        await refused(limiter, Quota(KEY, requests_per_minute=1))
        await house.close()


async def test_a_client_that_leaves_while_the_ledger_is_asked_leaves_nothing_behind(directory: Path) -> None:
    async with deaf_ledger(directory):
        house = House(directory)
        limiter = await house.limiter()
        asking = asyncio.create_task(limiter.enter(Quota(KEY, requests_per_minute=1), 1, 0))
        await eventually(lambda: house.own[0].live(KEY) == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (house.own[0].live(KEY), house.own[0].requests(KEY)) == (0, 0)
        await house.close()


async def test_what_makes_no_sense_ends_the_connection_and_nothing_else(house: House) -> None:
    limiter = await house.limiter()
    reader, writer = await asyncio.open_unix_connection(house.directory / SOCKET)
    writer.write(b"nonsense\n")
    assert await reader.read() == b""
    writer.close()
    await entered(limiter, Quota(KEY, max_concurrent=1))


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_in_the_end_nothing_is_held(house: House, seed: int) -> None:
    """F17, over processes: requests that end in every way, clients that leave while the ledger is asked, processes
    that die. At no time more run than may; at the end the tokens are those of each request, and nothing runs."""
    rng = random.Random(seed)
    quota = Quota(KEY, max_concurrent=4, tokens_per_minute=1_000_000)
    limiters = [await house.limiter() for _ in range(3)]
    spent = running = most = 0

    async def one(limiter: SharedLimiter) -> None:
        nonlocal spent, running, most
        presumed, prompt, answer = (rng.randrange(1, 100) for _ in range(3))
        admission, _ = await limiter.enter(quota, 1, presumed)
        if isinstance(admission, Refusal):
            return
        running += 1
        most = max(most, running)
        try:
            await asyncio.sleep(rng.uniform(0.0, 0.01))
            how = rng.choice(("answered", "failed", "refused", "unknown"))
            if how == "answered":
                admission.used(prompt, answer)
                spent += prompt + answer
            elif how == "unknown":
                spent += presumed
            else:
                admission.answered_nothing(refused=how == "refused")
        except asyncio.CancelledError:
            admission.used(prompt, 0)
            spent += prompt
            raise
        finally:
            running -= 1
            limiter.leave(admission)

    tasks = []
    for _ in range(300):
        tasks.append(asyncio.create_task(one(rng.choice(limiters))))
        if rng.random() < 0.2:
            rng.choice(tasks).cancel()
        await asyncio.sleep(rng.uniform(0.0, 0.002))
    await asyncio.gather(*tasks, return_exceptions=True)
    await eventually(lambda: house.account.live(KEY) == 0)
    assert 0 < most <= 4
    assert house.account.tokens(KEY) == spent
    assert all(own.live(KEY) == 0 for own in house.own)
    assert sum(own.tokens(KEY) for own in house.own) == spent
    _, standing = await limiters[0].enter(quota, 1, 1)
    assert isinstance(standing, Standing)
