"""Embeddings through the official client, by workers whose engine makes them."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import openai
import pytest

from inference.contracts.states import Role
from inference.testing.fleet import MODEL as STUB
from inference.testing.fleet import stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.worker.limits import WorkerLimits
from tests.inference.router.conftest import MODEL, PATIENT, Bench, eventually
from tests.inference.router.scripted import SECRET
from tests.inference.router.test_with_fleet import FleetBench

SIZE = 24


@pytest.fixture
async def embedding(bench: Bench) -> AsyncIterator[FleetBench]:
    """One prefill worker, one decode worker and a unified one."""
    bench.model = STUB
    bench.deadlines = dataclasses.replace(PATIENT)
    settings = StubSettings(embedding_size=SIZE)
    async with stub_fleet(1, 1, 1, settings=settings, limits=WorkerLimits(max_embeddings=1), secret=SECRET) as fleet:
        await bench.start()
        served = FleetBench(bench, fleet)
        await served.publish()
        yield served
        await served.at_rest()
        await bench.restart_router(lambda: None)  # so that its connections end before the workers do


async def test_a_text_has_one_vector_as_numbers_or_as_base64(embedding: FleetBench) -> None:
    """The client asks for base64 by itself, and reads it, which its strict variety does not expect."""
    create = embedding.bench.openai.embeddings.create
    strict = embedding.bench.strict.embeddings.create
    for asking in (
        create(model=STUB, input="What is a tandem?"),
        strict(model=STUB, input="What is a tandem?", encoding_format="float"),
    ):
        answer = await asking
        assert (answer.object, answer.model) == ("list", STUB)
        (told,) = answer.data
        assert (told.object, told.index, len(told.embedding)) == ("embedding", 0, SIZE)
        assert math.isclose(sum(number**2 for number in told.embedding), 1, rel_tol=1e-6)
        assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (17, 17)
    text = await create(model=STUB, input="Hi", encoding_format="base64")
    assert isinstance(text.data[0].embedding, str)
    assert text._request_id


async def test_both_formats_are_the_same_numbers(embedding: FleetBench) -> None:
    create = embedding.bench.openai.embeddings.create
    decoded, numbers = (
        await create(model=STUB, input="a b"),
        await create(model=STUB, input="a b", encoding_format="float"),
    )
    assert decoded.data[0].embedding == numbers.data[0].embedding


async def test_several_texts_or_tokens_have_vectors_in_their_order(embedding: FleetBench) -> None:
    create = embedding.bench.openai.embeddings.create
    texts = ["one", "two", "one", "ein längerer Text 🚲"]
    alone = [(await create(model=STUB, input=text)).data[0].embedding for text in texts]
    for inputs in (texts, [list(text.encode()) for text in texts]):
        together = await create(model=STUB, input=inputs)
        assert [each.index for each in together.data] == [0, 1, 2, 3]
        assert [each.embedding for each in together.data] == alone
        assert together.usage.prompt_tokens == len("".join(texts).encode())
    assert alone[0] == alone[2] != alone[1]


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": ""}, "invalid_request", "input"),
        ({"input": ["a", ""]}, "invalid_request", "input"),
        ({"input": []}, "invalid_request", "input"),
        ({"input": [[]]}, "invalid_request", "input"),
        ({"input": [-1]}, "invalid_request", "input"),
        ({"input": ["a"] * 257}, "invalid_request", "input"),
        ({"input": 7}, "invalid_request", "input"),
        ({"input": "a", "dimensions": 12}, "unsupported_parameter", "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "invalid_request", "encoding_format"),
        ({"input": [999_999]}, "invalid_request", "input"),
        ({"input": ["a", "x" * 3000]}, "context_length_exceeded", "input"),
    ],
)
async def test_what_can_not_be_done_is_refused_by_name(
    embedding: FleetBench, fields: dict[str, Any], code: str, param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await embedding.bench.strict.embeddings.create(model=STUB, **fields)
    assert (caught.value.code, caught.value.param) == (code, param)


async def test_a_deployment_whose_engine_makes_none_says_so_and_no_worker_is_asked(bench: Bench) -> None:
    prefill, decode = bench.pair()
    await bench.start()
    with pytest.raises(openai.BadRequestError, match="makes no embeddings") as caught:
        await bench.strict.embeddings.create(model=MODEL, input="Hi")
    assert (caught.value.code, caught.value.param) == ("unsupported_endpoint", "model")
    with pytest.raises(openai.NotFoundError):
        await bench.strict.embeddings.create(model="gpt-9", input="Hi")
    assert not prefill.calls
    assert not decode.calls


async def test_any_worker_will_do_and_one_that_is_gone_costs_another_try(embedding: FleetBench) -> None:
    fleet = embedding.fleet
    await fleet.prefill[0].stop()
    await fleet.decode[0].stop()
    answers = [await embedding.bench.openai.embeddings.create(model=STUB, input="Hi") for _ in range(6)]
    assert len({str(answer.data) for answer in answers}) == 1
    await fleet.decode[1].stop()
    with pytest.raises(openai.InternalServerError) as caught:
        await embedding.bench.strict.embeddings.create(model=STUB, input="Hi")
    assert caught.value.status_code == 502


async def test_when_all_are_busy_the_client_is_told_when_to_come_again(
    embedding: FleetBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is computed counts as one that runs, so that its worker is not taken for idle."""
    bench, workers = embedding.bench, embedding.fleet.workers
    for worker in workers:
        monkeypatch.setattr(worker.server.worker.duties.embeddings, "live", 1)
    assert all(worker.load.running == 1 for worker in workers)
    with pytest.raises(openai.InternalServerError) as caught:
        await bench.strict.embeddings.create(model=STUB, input="Hi")
    assert (caught.value.status_code, caught.value.code) == (503, "queue_full")
    assert int(caught.value.response.headers["Retry-After"]) >= 1
    monkeypatch.undo()
    for worker in workers:
        worker.server.worker.state.draining = True
    with pytest.raises(openai.InternalServerError) as caught:
        await bench.strict.embeddings.create(model=STUB, input="Hi")
    assert caught.value.code == "draining"


async def test_a_call_counts_as_one_request_with_the_tokens_it_had(embedding: FleetBench) -> None:
    bench = embedding.bench
    bench.keys[0] = msgspec.structs.replace(bench.keys[0], requests_per_minute=2, tokens_per_minute=100)
    before = bench.router.tables.keyring
    bench.publish_deployments(*bench.router.tables.deployments)
    await eventually(lambda: bench.router.tables.keyring is not before)
    raw = await bench.strict.embeddings.with_raw_response.create(model=STUB, input=["a" * 20, "b" * 20])
    assert raw.headers["x-ratelimit-remaining-requests"] == "1"
    assert bench.router.key_limits.tokens("k1") == 40


async def test_an_older_worker_that_does_not_know_how_is_no_answer(bench: Bench) -> None:
    bench.worker(Role.UNIFIED)  # scripted workers have no such address
    await bench.start()
    deployment = msgspec.structs.replace(bench.router.tables.deployments[0], embeddings=True)
    bench.publish_deployments(deployment)
    await eventually(lambda: bench.router.tables.deployments[0].embeddings)
    with pytest.raises(openai.InternalServerError) as caught:
        await bench.strict.embeddings.create(model=MODEL, input="Hi")
    assert caught.value.status_code == 502


async def test_many_at_once_are_each_answered(embedding: FleetBench) -> None:
    create = embedding.bench.client(max_retries=8).embeddings.create
    answers = await asyncio.gather(*(create(model=STUB, input=[f"text {number}"] * 3) for number in range(6)))
    assert [answer.usage.prompt_tokens for answer in answers] == [18] * 6
