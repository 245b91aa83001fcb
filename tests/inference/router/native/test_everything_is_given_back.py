"""The same storm over the native engine: in the end no KV block, ticket or count is held."""

from __future__ import annotations

import dataclasses

import pytest

from inference.contracts.routing import ServingKeyEntry
from inference.testing.faults import FaultKind
from inference.testing.faulty_engine import FaultyEngine
from inference.testing.fleet import MODEL, Fleet
from tests.inference.router.conftest import PATIENT, Bench
from tests.inference.router.native.conftest import publish
from tests.inference.router.test_everything_is_given_back import Storm

REQUESTS = 48


@pytest.mark.parametrize("seed", range(1))
async def test_aborts_kills_and_retries_leave_nothing_behind(
    bench: Bench, fleet: Fleet[FaultyEngine], seed: int
) -> None:
    bench.keys = [ServingKeyEntry(key_id="k1", digest=bench.keys[0].digest, requests_per_minute=10_000)]
    bench.deadlines = dataclasses.replace(PATIENT, orphan_s=1.0)
    bench.limits = dataclasses.replace(bench.limits, queue_s=20.0, suspect_s=0.1, suspect_most_s=0.5)
    fleet.local_prefill_tokens = 48
    await bench.start()
    await publish(bench, fleet)
    kinds = (FaultKind.REFUSE, FaultKind.SLOW, FaultKind.CRASH)
    storm = Storm(bench, fleet, seed, kinds, scale=8.0)
    await storm.run(REQUESTS)
    assert len(storm.ends) == REQUESTS
    assert "hung" not in storm.ends
    assert "whole" in storm.ends
    await fleet.settled(within_s=10.0)
    await bench.at_rest()
    assert not any(standing.in_use for standing in bench.router.knowledge.standings.values())
    assert bench.router.key_limits.live("k1") == 0
    assert len(bench.router.rooms.of(MODEL)) == 0
