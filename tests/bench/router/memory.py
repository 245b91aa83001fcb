"""Whether the router's memory stays where it is over very many requests, of which clients leave some in the middle."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import uvloop

from tests.bench.router.answers import TOKENS
from tests.bench.router.fronts import Front
from tests.bench.router.load import Callers, side_by_side
from tests.bench.rows import Row

#: So small a memory of prompts is full long before the first look, so that what grows after it is a leak.
SETTINGS = {"TANDEM_ROUTER_PREFIX_BLOCKS": "2000"}

_AT_ONCE = 32
_LEAVE, _OF = 3, 10
_LOOKS = 100
#: Requests before the first look. What clients leave behind is freed when the collector of garbage comes, after some
#: 10,000 requests; only after a dozen times has the process all the memory that this takes at most.
_SETTLE = 150_000
#: Bytes a request. The smallest object takes 16: less than that is nothing left of a request.
FLAT = 16.0


@dataclass(frozen=True)
class Look:
    requests: int
    seconds: float
    rss_mib: float


def rows(front: Front, requests: int) -> list[Row]:
    settle = _SETTLE if requests >= _LOOKS * 100 else 0
    looks = uvloop.run(_measure(front, requests, settle))
    grows = growth(looks)
    return [
        Row(
            name=f"growth of memory over {requests:,} requests, {_LEAVE * 100 // _OF} % of them left by the client in "
            "the middle",
            unit="bytes a request",
            value=grows,
            ratio=grows,
            target=FLAT,
            better="at most",
            judged="count",
            note=f"{looks[0].rss_mib:.1f} MiB after {settle:,} of the same, then {looks[-1].rss_mib:.1f} MiB; "
            f"{looks[-1].seconds:.0f} s",
            details={"looks": [[look.requests, round(look.seconds, 1), round(look.rss_mib, 2)] for look in looks]},
        )
    ]


def growth(looks: Sequence[Look]) -> float:
    """Bytes a request: the median slope between any two looks (Theil-Sen), which a step here or there does not move."""
    return statistics.median(
        (later.rss_mib - look.rss_mib) * 2**20 / (later.requests - look.requests)
        for look, later in combinations(looks, 2)
    )


async def _measure(front: Front, requests: int, settle: int) -> list[Look]:
    callers, began = Callers(front.port), time.perf_counter()
    looks: list[Look] = []
    every = max(1, requests // _LOOKS)

    async def ask(number: int) -> None:
        leave = number % _OF < _LEAVE
        async with callers.one() as caller:
            seen = await caller.stream(front.request("held" if leave else "burst", number), leave=leave)
        if not leave and seen.tokens < TOKENS:
            raise RuntimeError(f"{front.name} gave {seen.tokens} tokens of {TOKENS}")

    async def ask_and_look(number: int) -> None:
        if number % every == 0:
            looks.append(Look(number, time.perf_counter() - began, front.rss_mib()))
        await ask(number)

    await side_by_side(settle, _AT_ONCE, ask)
    began = time.perf_counter()
    await side_by_side(requests, _AT_ONCE, ask_and_look)
    callers.close()
    return looks
