"""When a key was last used, as the control plane is told."""

from __future__ import annotations

import time

import redis.asyncio

from inference.contracts import names
from inference.router.admission.key_use import KeyUse
from tests.inference.router.conftest import SHORT, Bench


async def test_the_last_use_of_a_key_is_told(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    before = int(time.time())
    await bench.chat(SHORT)
    await bench.router.key_use.write()

    told = bench.redis.hgetall(names.KEY_USE_KEY)
    assert list(told) == [b"k1"]
    assert before <= int(told[b"k1"]) <= time.time()
    assert bench.router.key_use._unsent == {}


async def test_a_use_that_redis_missed_is_told_later(bench_of_its_own: Bench) -> None:
    bench = bench_of_its_own
    bench.pair()
    await bench.start()
    bench.server.stop()
    assert (await bench.chat(SHORT))[0] == 200
    await bench.router.key_use.write()
    assert "k1" in bench.router.key_use._unsent

    bench.server.start()
    await bench.router.key_use.write()
    assert bench.redis.hgetall(names.KEY_USE_KEY)


async def test_uses_that_redis_never_takes_go_with_their_keys() -> None:
    now = 1_000_000.0
    use = KeyUse(redis.asyncio.Redis(), 5.0, lambda: now)
    for key_id in ("here", "gone"):
        use.note(key_id)
    use.forget_all_but({"here"})
    assert set(use._unsent) == {"here", "gone"}, "it may be told still"
    now += 3600
    use.forget_all_but({"here"})
    assert set(use._unsent) == {"here"}
