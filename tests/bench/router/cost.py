"""What a token and a request cost the router's core, in turns with vllm-router: A, B, C, C, B, A, ..."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import uvloop

from tests.bench.router.answers import TOKENS
from tests.bench.router.fronts import Front
from tests.bench.router.load import Callers, side_by_side
from tests.bench.rows import Row

BURST_AT_ONCE, PACED_AT_ONCE = 32, 64


@dataclass(frozen=True)
class Sample:
    """requests: answered. wall_s: from the first to the last. cpu_s: of the router meanwhile. waited_s: it would have
    run, and others had its core."""

    requests: int
    wall_s: float
    cpu_s: float
    waited_s: float

    @property
    def us_per_token(self) -> float:
        return self.cpu_s / self.requests / TOKENS * 1e6

    @property
    def per_core_s(self) -> float:
        """Requests for each second of processor time: what one core of the router can do."""
        return self.requests / self.cpu_s


@dataclass(frozen=True)
class Costs:
    """Samples of one router by model."""

    front: Front
    samples: dict[str, list[Sample]]

    def paced_request_s(self) -> float:
        """Processor time of one paced request, median."""
        return statistics.median(each.cpu_s / each.requests for each in self.samples["paced"])


def measure(fronts: Sequence[Front], rounds: int, requests: int) -> list[Costs]:
    """requests: of one sample of bursts; of paced ones a fifth."""
    costs = [Costs(front, {"burst": [], "paced": []}) for front in fronts]
    for front in fronts:
        uvloop.run(sample(front, "burst", max(BURST_AT_ONCE, requests // 4), BURST_AT_ONCE))  # connections, caches
    for turn in range(rounds):
        for cost in costs if turn % 2 == 0 else reversed(costs):
            burst = uvloop.run(sample(cost.front, "burst", requests, BURST_AT_ONCE))
            paced = uvloop.run(sample(cost.front, "paced", max(PACED_AT_ONCE, requests // 5), PACED_AT_ONCE))
            cost.samples["burst"].append(burst)
            cost.samples["paced"].append(paced)
            print(
                f"  {cost.front.name}: burst {burst.us_per_token:.1f} us a token, {burst.per_core_s:,.0f} requests "
                f"for a second of the core; paced {paced.us_per_token:.1f} us a token",
                flush=True,
            )
    return costs


async def sample(front: Front, model: str, requests: int, at_once: int) -> Sample:
    """Have `front` answer so many requests of a model, so many at once."""
    callers = Callers(front.port)

    async def one(number: int) -> None:
        async with callers.one() as caller:
            seen = await caller.stream(front.request(model, number))
        if seen.tokens < TOKENS:
            raise RuntimeError(f"{front.name} gave {seen.tokens} tokens of {TOKENS}")

    ran, waited, began = front.cpu_s(), front.waited_s(), time.perf_counter()
    await side_by_side(requests, at_once, one)
    taken = Sample(requests, time.perf_counter() - began, front.cpu_s() - ran, front.waited_s() - waited)
    callers.close()
    await asyncio.sleep(0.05)  # the connections are closed before the next one's turn
    return taken


def times(ours: Costs, theirs: Costs, model: str) -> float:
    """What a token of ours costs in times of theirs: the median of what was measured right after each other."""
    pairs = zip(ours.samples[model], theirs.samples[model], strict=True)
    return statistics.median(own.us_per_token / other.us_per_token for own, other in pairs)


def rows(costs: Sequence[Costs]) -> list[Row]:
    ours, *others = costs
    found = []
    for other in others:
        for model, name in (
            ("paced", f"CPU per streamed token, {PACED_AT_ONCE} streams, one token in 10 ms each"),
            ("burst", f"CPU per streamed token, bursts, {BURST_AT_ONCE} connections"),
        ):
            mine, theirs = ours.samples[model], other.samples[model]
            found.append(
                Row(
                    name=name,
                    unit="us",
                    value=statistics.median(each.us_per_token for each in mine),
                    compared_with=other.front.name,
                    reference=statistics.median(each.us_per_token for each in theirs),
                    ratio=times(ours, other, model),
                    target=1.0,
                    better="at most",
                    details={"ours": _all(mine), "theirs": _all(theirs)},
                )
            )
        mine, theirs = ours.samples["burst"], other.samples["burst"]
        walls = [statistics.median(each.requests / each.wall_s for each in samples) for samples in (mine, theirs)]
        found.append(
            Row(
                name=f"requests per second of one core, bursts, {BURST_AT_ONCE} connections",
                unit="/s",
                value=statistics.median(each.per_core_s for each in mine),
                compared_with=other.front.name,
                reference=statistics.median(each.per_core_s for each in theirs),
                ratio=1 / times(ours, other, "burst"),
                target=1.0,
                note=f"by the clock {walls[0]:,.0f} and {walls[1]:,.0f}",
                details={"ours": _all(mine), "theirs": _all(theirs)},
            )
        )
    return found


def _all(samples: Sequence[Sample]) -> list[dict[str, float]]:
    return [asdict(sample) for sample in samples]
