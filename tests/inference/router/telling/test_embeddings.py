"""A request for embeddings counts once, whichever way it ends, and is in no figure of answers."""

from __future__ import annotations

import asyncio
import dataclasses
from array import array
from collections.abc import Awaitable, Callable

import msgspec
import openai
import pytest

from inference.contracts.embeddings import Embedded, EmbedRequest
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.routing import WorkerRoute
from inference.contracts.states import Role
from inference.contracts.timings import Counter, Gauge, Latency, Window
from inference.router.workers.client import WorkerClient
from tests.inference.router.conftest import MODEL, SHORT, Bench, eventually
from tests.inference.router.telling.test_windows import merged, of_requests, of_revision

Answer = Callable[[WorkerRoute], Awaitable[Embedded]]
ONE = Embedded(vectors=(array("f", [0.5, 0.5]).tobytes(),), tokens=7)
SAID = {"model": MODEL, "input": "Hi"}


async def vectors(worker: WorkerRoute) -> Embedded:
    return ONE


def failing(error: BaseException) -> Answer:
    async def answer(worker: WorkerRoute) -> Embedded:
        raise error

    return answer


async def for_ever(worker: WorkerRoute) -> Embedded:
    await asyncio.Event().wait()
    return ONE


@pytest.fixture
def by(monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """What workers do when they are asked: one after the other, the last of them for ever."""
    turns: list[Answer] = [vectors]

    async def embed(client: WorkerClient, worker: WorkerRoute, question: EmbedRequest, within_s: float) -> Embedded:
        return await (turns.pop(0) if len(turns) > 1 else turns[0])(worker)

    monkeypatch.setattr(WorkerClient, "embed", embed)
    return turns


async def started(bench: Bench, workers: int = 1) -> Bench:
    for number in range(workers):
        bench.worker(Role.UNIFIED, revision=number + 1)
    await bench.start()
    deployment = msgspec.structs.replace(bench.router.tables.deployments[0], embeddings=True)
    bench.publish_deployments(deployment)
    await eventually(lambda: bench.router.tables.deployments[0].embeddings)
    return bench


async def closed(bench: Bench) -> Window:
    """What the windows say once the one request has ended."""
    ended = {Counter.COMPLETED, Counter.REJECTED, Counter.FAILED, Counter.CANCELLED}
    await eventually(lambda: ended & set(merged(of_requests(bench)).counters))
    idle = len(bench.windows())
    await eventually(lambda: len(bench.windows()) >= idle + 3)
    return merged(of_requests(bench))


def embed(bench: Bench) -> Awaitable[openai.types.CreateEmbeddingResponse]:
    return bench.openai.embeddings.create(**SAID)


async def test_one_that_is_answered_has_its_time_and_its_tokens_and_no_pace(bench: Bench, by: list[Answer]) -> None:
    await started(bench)
    await embed(bench)
    whole = await closed(bench)
    assert whole.counters == {Counter.RECEIVED: 1, Counter.COMPLETED: 1, Counter.PROMPT_TOKENS: 7}
    assert {latency: histogram.total for latency, histogram in whole.latencies.items()} == {Latency.E2E: 1}
    revision = of_revision(bench, 1)
    assert (revision.counters, revision.latencies) == ({Counter.COMPLETED: 1}, {})
    exposed = await bench.metrics()
    assert 'tandem_router_requests_total{deployment="chat",outcome="completed"} 1.0' in exposed
    assert 'tandem_router_tokens_total{deployment="chat",kind="prompt"} 7.0' in exposed
    assert "tandem_router_ttft_seconds_count" not in exposed


@pytest.mark.parametrize(
    ("answer", "status", "counted"),
    [
        (failing(TandemError(ErrorCode.INVALID_REQUEST, "no", "input")), 400, Counter.REJECTED),
        (failing(TandemError(ErrorCode.QUEUE_FULL, "no")), 503, Counter.REJECTED),
        (failing(TandemError(ErrorCode.ENGINE_FAILED, "no")), 502, Counter.FAILED),
        (failing(RuntimeError("a bug")), 500, Counter.FAILED),
        (for_ever, 504, Counter.FAILED),
    ],
    ids=["the client's fault", "busy", "a worker's fault", "a bug", "never"],
)
async def test_one_that_is_not_is_counted_by_whose_turn_it_is(
    bench: Bench, by: list[Answer], answer: Answer, status: int, counted: Counter
) -> None:
    by[:] = [answer]
    bench.deadlines = dataclasses.replace(bench.deadlines, total_s=0.3)
    await started(bench)
    with pytest.raises(openai.APIStatusError) as caught:
        await embed(bench)
    assert caught.value.status_code == status
    whole = await closed(bench)
    assert (whole.counters, whole.latencies) == ({Counter.RECEIVED: 1, counted: 1}, {})
    assert of_revision(bench, 1).counters == ({Counter.FAILED: 1} if status == 502 else {})
    await bench.at_rest()


async def test_one_whose_client_leaves_is_cancelled_and_was_in_flight(bench: Bench, by: list[Answer]) -> None:
    by[:] = [for_ever]
    await started(bench)
    asking = asyncio.ensure_future(embed(bench))
    await eventually(lambda: any(window.gauges.get(Gauge.IN_FLIGHT) == 1 for window in bench.windows()))
    asking.cancel()
    whole = await closed(bench)
    assert whole.counters == {Counter.RECEIVED: 1, Counter.CANCELLED: 1}
    await bench.at_rest()


async def test_one_that_another_worker_answers_is_completed_and_its_retry_told(bench: Bench, by: list[Answer]) -> None:
    by[:] = [failing(TandemError(ErrorCode.ENGINE_FAILED, "no")), vectors]
    await started(bench, workers=2)
    await embed(bench)
    whole = await closed(bench)
    assert whole.counters == {
        Counter.RECEIVED: 1,
        Counter.RETRIED: 1,
        Counter.COMPLETED: 1,
        Counter.PROMPT_TOKENS: 7,
    }
    of_revisions = sorted(set(of_revision(bench, number).counters) for number in (1, 2))
    assert of_revisions in ([{Counter.COMPLETED}, {Counter.FAILED}], [{Counter.FAILED}, {Counter.COMPLETED}])


async def test_a_router_that_stops_ends_one_at_its_deadline_and_waits_for_one_until_then(
    bench: Bench, by: list[Answer]
) -> None:
    by[:] = [for_ever]
    bench.deadlines = dataclasses.replace(bench.deadlines, stop_s=0.2)
    await started(bench)
    asking = asyncio.ensure_future(embed(bench))
    await eventually(lambda: bench.router.in_flight()["chat"] == 1)
    await bench.router.stop()
    with pytest.raises(openai.InternalServerError, match="stopping") as caught:
        await asking
    assert caught.value.status_code == 503
    whole = await closed(bench)
    assert whole.counters == {Counter.RECEIVED: 1, Counter.REJECTED: 1}


async def test_what_is_refused_at_the_door_is_not_counted_as_with_answers(bench: Bench, by: list[Answer]) -> None:
    await started(bench)
    for fields in ({"input": ""}, {"model": "gpt-9"}):
        with pytest.raises(openai.APIStatusError):
            await bench.openai.embeddings.create(**SAID | fields)
    await bench.chat(SHORT)
    assert (await closed(bench)).counters[Counter.RECEIVED] == 1
