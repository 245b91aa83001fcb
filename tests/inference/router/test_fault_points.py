"""One fault at every point where real workers can fail, of every kind: the client gets the answer all the same."""

from __future__ import annotations

import dataclasses

import pytest

from inference.testing.faults import Fault, FaultKind, FaultPlan, FaultPoint
from inference.testing.fleet import MODEL, stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.worker.limits import WorkerLimits
from tests.inference.router.conftest import PATIENT, Bench, eventually
from tests.inference.router.scripted import SECRET
from tests.inference.router.test_faults import text_of

PROMPT = "A prompt of several chunks, so that its KV travels in several pieces: " + "word " * 20
QUICK = WorkerLimits(lease_s=1.0, handoff_wait_s=2.0, handoff_s=1.0, kv_wait_s=1.0, stop_s=1.0)
POINTS = (FaultPoint.BEFORE_PREFILL, FaultPoint.AFTER_PREFILL, FaultPoint.MID_TRANSFER, FaultPoint.MID_DECODE)
KINDS = (FaultKind.CRASH, FaultKind.HANG, FaultKind.SLOW, FaultKind.REFUSE)

#: Where a prompt is read, and where it can go wrong there: nothing travels while the answering worker reads it itself.
PLACES = [
    (local, point) for local in (False, True) for point in POINTS if not (local and point is FaultPoint.MID_TRANSFER)
]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("local", "point"), PLACES, ids=[f"{'local' if local else 'hand-off'}-{point}" for local, point in PLACES]
)
async def test_one_fault_anywhere_is_not_seen_by_the_client(
    bench: Bench, point: FaultPoint, kind: FaultKind, local: bool, stream: bool
) -> None:
    bench.model = MODEL
    bench.deadlines = dataclasses.replace(PATIENT, first_event_s=1.5, idle_s=1.5, orphan_s=1.0)
    async with stub_fleet(2, 2, settings=StubSettings(), limits=QUICK, secret=SECRET) as fleet:
        fleet.local_prefill_tokens = 10_000 if local else 0
        await bench.start()
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(lambda: bench.router.tables.find(MODEL) is not None)
        ask = {"max_tokens": 12, "temperature": 1.0, "seed": 3}
        _, expected = await bench.chat(PROMPT, **ask)
        plan = FaultPlan([Fault(point=point, kind=kind, seconds=0.2)])
        for worker in fleet.workers:
            worker.engine.faults = plan  # whichever comes there first
        if stream:
            assert text_of(await bench.stream(PROMPT, **ask)) == expected["choices"][0]["message"]["content"]
        else:
            status, answer = await bench.chat(PROMPT, **ask)
            assert (status, answer["choices"]) == (200, expected["choices"])
            assert answer["usage"] == expected["usage"]
        await bench.at_rest()
        for worker in fleet.workers:
            if kind is FaultKind.HANG and worker.engine.heartbeat_age() > 0.5:
                await worker.kill()  # what it holds ends with its process
        await fleet.settled()
        await bench.restart_router(lambda: None)
