"""What a router adds to the time to first token while half of its core is busy.

Requests arrive at random (Poisson), as many as keep half of the router's core busy: that rate is found by trying. Every
fourth goes straight to the same workers instead, at the same time: the difference is what the router adds.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Sequence

import uvloop

from tests.bench.router.answers import STEP_S, TOKENS
from tests.bench.router.cost import Costs
from tests.bench.router.fronts import Front
from tests.bench.router.load import Callers, arrivals
from tests.bench.router.straight import straight
from tests.bench.rows import Row

_STRAIGHT = 4  # every so manieth request
_BUSY = 0.5
#: Half load is at most so far from half.
_NEAR = 0.05
_TRIES = 3
#: An answer takes about so long.
_ANSWER_S = TOKENS * STEP_S
_WANTED_MS = {0.5: 1.0, 0.99: 5.0}


def rows(costs: Sequence[Costs], seconds: float, rounds: int) -> list[Row]:
    added = [_Added(cost) for cost in costs]
    for each in added:
        each.find_rate(seconds / rounds)
    for _ in range(rounds):
        for each in added:
            each.measure(seconds / rounds)
    ours, *others = added
    return [
        Row(
            name=f"added time to first token, p{share * 100:.0f}, at half load",
            unit="ms",
            value=ours.ms(share),
            compared_with=other.front.name,
            reference=other.ms(share),
            ratio=ours.ms(share),
            target=wanted,
            better="at most",
            judged="count",
            note=f"about {ours.rate:.0f} requests/s: {ours.told(share)}; "
            f"beside it {other.rate:.0f}/s: {other.told(share)}",
            details={"ours": ours.as_dict(), "theirs": other.as_dict()},
        )
        for other in others[:1]
        for share, wanted in _WANTED_MS.items()
    ]


class _Added:
    def __init__(self, cost: Costs) -> None:
        self.front: Front = cost.front
        self.rate = _BUSY / cost.paced_request_s()
        self.busy: list[float] = []
        self._routed: list[float] = []
        self._straight: list[float] = []

    def find_rate(self, seconds: float) -> None:
        """From what a request was measured to cost, to what it costs at this rate."""
        for _ in range(_TRIES):
            self._try(seconds)

    def measure(self, seconds: float) -> None:
        """At half load: what a request costs changes with the machine, and the rate with it. A try at another load
        does not count, as long as there are tries left."""
        for left in reversed(range(_TRIES)):
            busy, routed, straight_on = self._try(seconds)
            if abs(busy - _BUSY) <= _NEAR or not left:
                self.busy.append(busy)
                self._routed += routed
                self._straight += straight_on
                return

    def _try(self, seconds: float) -> tuple[float, list[float], list[float]]:
        """How busy the router was, and seconds to the first token by way of it and straight."""
        routed: list[float] = []
        straight_on: list[float] = []
        busy = uvloop.run(self._arrive(seconds, routed, straight_on))
        self.rate *= _BUSY / busy
        return busy, routed, straight_on

    def ms(self, share: float) -> float:
        return (quantile(self._routed, share) - quantile(self._straight, share)) * 1e3

    def told(self, share: float) -> str:
        routed, straight_on = quantile(self._routed, share) * 1e3, quantile(self._straight, share) * 1e3
        return f"{routed:.2f} ms, straight {straight_on:.2f} ms"

    def as_dict(self) -> dict[str, object]:
        shares = (0.5, 0.9, 0.99)
        return {
            "last_rate": self.rate,
            "busy": self.busy,
            "requests": len(self._routed),
            "routed_s": {str(share): quantile(self._routed, share) for share in shares},
            "straight_s": {str(share): quantile(self._straight, share) for share in shares},
        }

    async def _arrive(self, seconds: float, routed: list[float], straight_on: list[float]) -> float:
        callers, go_straight = Callers(self.front.port), straight(self.front)

        async def one(number: int) -> None:
            if number % _STRAIGHT == 0:
                straight_on.append(await go_straight.one(number))
                return
            async with callers.one() as caller:
                seen = await caller.stream(self.front.request("paced", number))
            assert seen.first_s is not None
            routed.append(seen.first_s)

        load = asyncio.ensure_future(self._load(seconds))
        # As many more as go straight, so that the router gets its rate.
        await arrivals(self.rate * _STRAIGHT / (_STRAIGHT - 1), seconds, one, random.Random(len(self.busy)))
        callers.close()
        go_straight.close()
        return await load

    async def _load(self, seconds: float) -> float:
        """How busy the router is once as many answers are under way as will be, until no more are asked for."""
        await asyncio.sleep(_ANSWER_S)
        before, began = self.front.cpu_s(), time.perf_counter()
        await asyncio.sleep(seconds - _ANSWER_S)
        return (self.front.cpu_s() - before) / (time.perf_counter() - began)


def quantile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
