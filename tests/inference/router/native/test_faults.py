"""One fault at every point of a request, on the native engine: the answer is byte for byte what it would have been."""

from __future__ import annotations

import dataclasses
import uuid

import pytest

from inference.contracts.routing_policy import RoutingPolicy
from inference.contracts.states import HandoffFailure
from inference.testing.faults import Fault, FaultKind, FaultPlan, FaultPoint
from inference.testing.faulty_engine import FaultyEngine
from inference.testing.fleet import Fleet
from tests.inference.router.conftest import PATIENT, Bench
from tests.inference.router.native.conftest import publish
from tests.inference.router.test_continuation import finish_of, usage_of
from tests.inference.router.test_continuation import publish as change
from tests.inference.router.test_fault_points import PLACES
from tests.inference.router.test_faults import text_of

PROMPT = "Name the capital of France, then tell a long story about two riders who share one bike. " * 2
TOKENS = 20

#: Text, reasons to end, and usage.
Told = tuple[str, list[str], dict]


def asked() -> dict[str, object]:
    """With a salt of its own, so that no KV of an earlier one is used and all of it travels."""
    return {"max_tokens": TOKENS, "temperature": 0, "cache_salt": uuid.uuid4().hex}


async def answer(bench: Bench) -> Told:
    events = await bench.stream(PROMPT, stream_options={"include_usage": True}, **asked())
    assert events[-1] == (None, "[DONE]"), events[-1]
    return text_of(events), finish_of(events), usage_of(events)


@pytest.fixture(scope="package")
def whole(engines: list[FaultyEngine]) -> dict[str, Told]:
    """The undisturbed answer of these engines, once it is known."""
    return {}


async def serve(bench: Bench, fleet: Fleet[FaultyEngine], *, local: bool = False) -> None:
    bench.deadlines = dataclasses.replace(PATIENT, orphan_s=2.0)
    fleet.local_prefill_tokens = 10_000 if local else 0
    await bench.start()
    await publish(bench, fleet)


def plant(fleet: Fleet[FaultyEngine], fault: Fault) -> None:
    """It strikes whichever worker comes there first."""
    plan = FaultPlan([fault])
    for worker in fleet.workers:
        worker.engine.faults = plan


@pytest.mark.parametrize("kind", [FaultKind.CRASH, FaultKind.REFUSE])
@pytest.mark.parametrize(
    ("local", "point"), PLACES, ids=[f"{'local' if local else 'hand-off'}-{point}" for local, point in PLACES]
)
async def test_one_fault_anywhere_changes_no_byte_of_the_answer(
    bench: Bench,
    fleet: Fleet[FaultyEngine],
    whole: dict[str, Told],
    point: FaultPoint,
    kind: FaultKind,
    local: bool,
) -> None:
    await serve(bench, fleet, local=local)
    undisturbed = whole.get(PROMPT) or whole.setdefault(PROMPT, await answer(bench))
    plant(fleet, Fault(point=point, kind=kind, after=5 if point is FaultPoint.MID_DECODE else 0))
    assert await answer(bench) == undisturbed
    assert 'retries_total{deployment="stub"} 1.0' in await bench.metrics()


@pytest.mark.parametrize("policy", HandoffFailure)
async def test_kv_that_does_not_arrive_is_made_again_or_told_as_the_deployment_wants(
    bench: Bench, fleet: Fleet[FaultyEngine], whole: dict[str, Told], policy: HandoffFailure
) -> None:
    await serve(bench, fleet)
    undisturbed = whole.get(PROMPT) or whole.setdefault(PROMPT, await answer(bench))
    await change(bench, policy=RoutingPolicy(handoff_failure=policy))
    plant(fleet, Fault(point=FaultPoint.MID_TRANSFER, kind=FaultKind.REFUSE))
    if policy is not HandoffFailure.FAIL:
        assert await answer(bench) == undisturbed
        return
    status, told = await bench.chat(PROMPT, **asked())
    assert status == 502, told
    assert told["error"]["type"] == "server_error"
    assert "could not be completed: the" in told["error"]["message"]
