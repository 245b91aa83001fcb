"""Whether the router's memory stays where it is over very many requests, of which clients leave some in the middle."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

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
#: Requests of the last minute are remembered for the rate of their key, in tables that grow by doubling.
_SETTLE_S = 130.0
_FLAT = 0.02


@dataclass(frozen=True)
class Look:
    requests: int
    seconds: float
    rss_mib: float


def rows(front: Front, requests: int) -> list[Row]:
    settle_s = _SETTLE_S if requests >= _LOOKS * 100 else 0.0
    looks = uvloop.run(_measure(front, requests, settle_s))
    part = max(1, len(looks) // 5)
    begin, end = (statistics.median(look.rss_mib for look in some) for some in (looks[:part], looks[-part:]))
    return [
        Row(
            name=f"memory over {requests:,} requests, {_LEAVE * 100 // _OF} % of them left by the client in the middle",
            unit="MiB",
            value=end,
            compared_with=f"{requests * 4 // 5:,} requests before",
            reference=begin,
            ratio=end / begin - 1,
            target=_FLAT,
            better="at most",
            judged="share",
            note=f"after {settle_s:.0f} s of the same; {looks[-1].seconds:.0f} s",
            details={"looks": [[look.requests, round(look.seconds, 1), round(look.rss_mib, 2)] for look in looks]},
        )
    ]


async def _measure(front: Front, requests: int, settle_s: float) -> list[Look]:
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

    while time.perf_counter() - began < settle_s:
        await side_by_side(1000, _AT_ONCE, ask)
    began = time.perf_counter()
    await side_by_side(requests, _AT_ONCE, ask_and_look)
    callers.close()
    return looks
