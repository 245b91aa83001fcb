"""How long the three choices of one request take, in this process: who answers, whether to split, who reads the
prompt."""

from __future__ import annotations

import random
import time
from collections import defaultdict

from inference.contracts.reports import Address, WorkerLoad
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.states import Role
from inference.router.choosing.ask import Ask, Barred
from inference.router.choosing.pick_decode import pick_decode
from inference.router.choosing.pick_prefill import pick_prefill
from inference.router.choosing.place import AllStandings
from inference.router.choosing.roster import roster_of
from inference.router.choosing.split import decide_split
from inference.router.choosing.standing import Standing, key_of
from tests.bench.router.latency import quantile
from tests.bench.rows import Row

#: Workers of each role, and how long the choices may take.
_WANTED_MS = {64: 0.2, 1000: 1.0}
_ADDRESS = Address(host="127.0.0.1", port=1)


def rows(decisions: int) -> list[Row]:
    return [_row(workers, wanted, decisions) for workers, wanted in _WANTED_MS.items()]


def _row(workers: int, wanted_ms: float, decisions: int) -> Row:
    times = measure(workers, decisions)
    p99, p50 = quantile(times, 0.99) * 1e3, quantile(times, 0.5) * 1e3
    return Row(
        name=f"the choices of one request, p99, {workers:,} workers of each role",
        unit="ms",
        value=p99,
        ratio=p99,
        target=wanted_ms,
        better="at most",
        judged="count",
        note=f"p50 {p50:.3f} ms, {decisions:,} requests",
    )


def measure(workers: int, decisions: int, seed: int = 0) -> list[float]:
    """Seconds of each request's choices. Workers differ in load and pace; prompts in what workers have of them."""
    rng = random.Random(seed)
    routes = tuple(_route(role, number) for role in (Role.PREFILL, Role.DECODE) for number in range(workers))
    roster = roster_of(
        DeploymentRoute(
            name="bench",
            model_name="bench",
            created=0,
            context_length=None,
            local_prefill_tokens=64,
            default_max_tokens=512,
            workers=routes,
        )
    )
    standings: AllStandings = defaultdict(Standing)
    for route in routes:
        standing = standings[key_of(route)]
        used, waiting = rng.randrange(6000), rng.randrange(8)
        standing.told(
            WorkerLoad(
                running=rng.randrange(32), waiting=waiting, waiting_tokens=500 * waiting, kv_blocks_used=used,
                kv_blocks_total=8000, kv_block_tokens=16,
            ),
            0.0,
        )  # fmt: skip
        standing.reading.add(rng.uniform(0.5, 1.5), 10_000)
        for running in (1, 8, 32):
            standing.writing.add(rng.uniform(0.5, 1.5), 50, running)
    times = []
    for _ in range(decisions):
        held = {key_of(rng.choice(routes)): rng.randrange(1500) for _ in range(rng.randrange(17))}
        ask = Ask(
            prompt_tokens=2000, answer_tokens=500, held=held, session=rng.getrandbits(64), itl_target_s=0.05,
        )  # fmt: skip
        began = time.perf_counter()
        answering = pick_decode(roster, standings, ask, Barred(), rng)
        assert answering is not None
        reading = pick_prefill(roster, answering, standings, ask, Barred(), rng)
        assert reading is not None
        decide_split(answering, 1500, 64, standings[key_of(answering)], standings[key_of(reading)], 1500)
        times.append(time.perf_counter() - began)
    return times


def _route(role: Role, number: int) -> WorkerRoute:
    return WorkerRoute(
        worker_id=f"{role}-{number}", incarnation="bench", pool_id=role, node_id=f"node-{number}", role=role,
        http=_ADDRESS, transfer=_ADDRESS if role is Role.DECODE else None, fingerprint="bench",
    )  # fmt: skip
