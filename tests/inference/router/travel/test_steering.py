"""What the router learns from workers, and how it shows in its choices."""

from __future__ import annotations

import pytest

from inference.contracts.states import Role
from inference.router.choosing.standing import key_of
from inference.testing.fleet import MODEL, stub_fleet
from tests.inference.router.conftest import LONG, PATIENT, SHORT, Bench, eventually
from tests.inference.router.scripted import SECRET


async def test_a_partner_whose_kv_takes_long_to_arrive_is_soon_left_for_another(bench: Bench) -> None:
    far, near, _ = bench.worker(Role.PREFILL), bench.worker(Role.PREFILL), bench.worker(Role.DECODE)
    far.handoff_s = 2.0  # is what it says
    await bench.start()
    for number in range(40):
        assert (await bench.chat(f"{number} {LONG}"))[0] == 200
    assert far.calls["prefill"] <= 12
    assert near.calls["prefill"] >= 28


async def test_the_time_between_tokens_is_learnt_by_how_many_answers_run(bench: Bench) -> None:
    worker = bench.worker(Role.UNIFIED)
    worker.pace_s = 0.02
    await bench.start()
    assert (await bench.chat(SHORT))[0] == 200
    (standing,) = bench.router.knowledge.standings.values()
    assert standing.step_with_one_more_s == pytest.approx(standing.writing.mean_s)
    assert standing.writing.mean_s >= 0.019


async def test_what_others_have_at_a_worker_is_known_right_once_an_answer_ended_there(bench: Bench) -> None:
    """The worker's word on its load at the end of an answer is without that answer."""
    bench.model, bench.deadlines = MODEL, PATIENT
    async with stub_fleet(0, 0, 1, secret=SECRET) as fleet:
        await bench.start()
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(lambda: bench.router.tables.find(MODEL) is not None)
        (worker,) = fleet.workers
        held = worker.engine.reserve(320)  # by a request of another router
        standing = bench.router.knowledge.standings[key_of(worker.route)]
        for _ in range(3):
            assert (await bench.chat(SHORT, max_tokens=2))[0] == 200
            assert standing.others_kv_tokens == 320
        worker.engine.release(held)
        await bench.restart_router(lambda: None)
