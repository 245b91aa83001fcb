"""Whoever connects is taken, or sees at once that nobody will."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from inference.process.listener import Listener


class Taken:
    """Connections, and where they come from."""

    def __init__(self) -> None:
        self.all: list[tuple[socket.socket, str]] = []
        self.news = asyncio.Event()

    def take(self, sock: socket.socket, peer: str) -> None:
        self.all.append((sock, peer))
        self.news.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.all) < count:
                self.news.clear()
                await self.news.wait()


@pytest.fixture
async def taken() -> AsyncIterator[Taken]:
    taken = Taken()
    yield taken
    for sock, _ in taken.all:
        sock.close()


@pytest.fixture
async def dial() -> AsyncIterator[Callable[[int], socket.socket]]:
    made: list[socket.socket] = []

    def connect(port: int) -> socket.socket:
        made.append(socket.create_connection(("127.0.0.1", port), timeout=5))
        return made[-1]

    yield connect
    for sock in made:
        sock.close()


async def test_each_that_connects_is_taken_with_its_address(taken: Taken, dial: Callable[[int], socket.socket]) -> None:
    listener = await Listener.bind("127.0.0.1", 0, taken.take)
    callers = [dial(listener.port) for _ in range(3)]
    await taken.until(3)
    listener.close()
    assert {peer for _, peer in taken.all} == {"127.0.0.1"}
    assert {sock.getpeername() for sock, _ in taken.all} == {caller.getsockname() for caller in callers}
    assert not any(sock.getblocking() for sock, _ in taken.all)


async def test_one_that_comes_as_it_is_closed_is_hung_up_on(taken: Taken, dial: Callable[[int], socket.socket]) -> None:
    """A socket left unclosed would fail this test: its warning is an error."""
    listener = await Listener.bind("127.0.0.1", 0, taken.take)
    caller = dial(listener.port)
    listener.close()
    listener.close()
    await asyncio.sleep(0)
    with pytest.raises(ConnectionResetError):
        caller.recv(1)
    assert not taken.all


async def test_running_out_of_descriptors_is_waited_out(taken: Taken) -> None:
    class Exhausted(socket.socket):
        failures = 1

        def accept(self) -> tuple[socket.socket, object]:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "too many open files")
            return super().accept()

    bound = Exhausted(socket.AF_INET, socket.SOCK_STREAM)
    bound.bind(("127.0.0.1", 0))
    bound.listen()
    bound.setblocking(False)
    listener = Listener(bound, taken.take)
    with socket.create_connection(("127.0.0.1", listener.port), timeout=5):
        await taken.until(1)
        assert not bound.failures
    listener.close()
