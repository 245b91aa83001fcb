"""Tokens of answers that are under way have their turns a few at a time, and all of them have one."""

from __future__ import annotations

import asyncio

from inference.router.turns import Turns


class Waiter:
    """Notes its turns in what all of them share."""

    def __init__(self, seen: list[str], name: str) -> None:
        self.seen, self.name = seen, name

    def read_now(self) -> None:
        self.seen.append(f"read {self.name}")

    def write_now(self) -> None:
        self.seen.append(f"write {self.name}")


async def after(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_what_is_new_goes_between_the_tokens_of_one_step() -> None:
    seen: list[str] = []
    turns = Turns()
    for number in range(10):
        turns.wait_to_read(Waiter(seen, str(number)))
    await after(1)
    seen.append("new")
    await after(2)
    assert seen == ["read 0", "read 1", "read 2", "read 3", "new", *(f"read {number}" for number in range(4, 10))]


async def test_of_very_many_a_share_has_its_turn_so_that_none_waits_for_ever() -> None:
    seen: list[str] = []
    turns = Turns()
    for number in range(800):
        turns.wait_to_read(Waiter(seen, str(number)))
    await after(1)
    assert len(seen) == 100


async def test_clients_are_written_to_in_one_go_once_many_wait_or_nothing_is_left_to_read() -> None:
    seen: list[str] = []
    turns = Turns()

    class Stream(Waiter):
        def read_now(self) -> None:
            super().read_now()
            turns.wait_to_write(self)

    for number in range(20):
        turns.wait_to_read(Stream(seen, str(number)))
    await after(3)
    assert len(seen) == 12  # all of them reads
    await after(1)
    assert seen[12:] == [*(f"read {number}" for number in range(12, 16)), *(f"write {number}" for number in range(16))]
    await after(1)
    assert seen[32:] == [f"{what} {number}" for what in ("read", "write") for number in range(16, 20)]


async def test_one_that_fails_takes_nobody_elses_turn() -> None:
    seen: list[str] = []
    turns = Turns()

    class Broken(Waiter):
        def read_now(self) -> None:
            raise RuntimeError("a bug")

    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(str(context["exception"])))
    turns.wait_to_read(Broken(seen, "broken"))
    turns.wait_to_read(Waiter(seen, "whole"))
    await after(2)
    assert (told, seen) == (["a bug"], ["read whole"])


async def test_who_waits_again_has_another_turn() -> None:
    seen: list[str] = []
    turns, waiter = Turns(), Waiter(seen, "one")
    for _ in range(3):
        turns.wait_to_read(waiter)
        await after(1)
    assert seen == ["read one"] * 3
