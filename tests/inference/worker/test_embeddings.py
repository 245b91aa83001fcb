"""Embeddings at a worker: who makes them, and what is refused."""

from __future__ import annotations

import pytest

from inference.contracts.embeddings import EmbedRequest
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import TextPrompt
from inference.contracts.states import Role
from inference.testing.fleet import MODEL, stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.worker.limits import WorkerLimits

HI = EmbedRequest(request_id="r", model_name=MODEL, inputs=(TextPrompt(text="Hi"),))


@pytest.mark.parametrize(("size", "code"), [(None, ErrorCode.INVALID_REQUEST), (4, ErrorCode.QUEUE_FULL)])
async def test_an_engine_that_makes_none_and_one_that_is_full_say_so(size: int | None, code: ErrorCode) -> None:
    settings = StubSettings(embedding_size=size)
    async with stub_fleet(0, 0, 1, settings=settings, limits=WorkerLimits(max_embeddings=0)) as fleet:
        with pytest.raises(TandemError) as caught:
            await fleet.workers[0].server.worker.duties.embeddings.embed(HI)
    assert caught.value.code is code


@pytest.mark.parametrize("role", list(Role))
async def test_workers_of_every_role_make_the_same_ones(role: Role) -> None:
    settings = StubSettings(embedding_size=4)
    async with stub_fleet(0, 0, 0, settings=settings) as fleet:
        worker = await fleet.add(role, settings)
        made = await worker.server.worker.duties.embeddings.embed(HI)
        assert (len(made.vectors[0]), made.tokens) == (16, 2)
        assert worker.idle


async def test_a_request_that_is_refused_holds_nothing() -> None:
    settings = StubSettings(embedding_size=4)
    async with stub_fleet(0, 0, 1, settings=settings) as fleet:
        embeddings = fleet.workers[0].server.worker.duties.embeddings
        for text in ("", "x" * 5000):
            wrong = EmbedRequest(request_id="r", model_name=MODEL, inputs=(TextPrompt(text="a"), TextPrompt(text=text)))
            with pytest.raises(TandemError, match=r"input\[1\]") as caught:
                await embeddings.embed(wrong)
            assert caught.value.param == "input"
        with pytest.raises(TandemError) as caught:
            await embeddings.embed(EmbedRequest(request_id="r", model_name="another", inputs=HI.inputs))
        assert caught.value.code is ErrorCode.MODEL_NOT_FOUND
        assert embeddings.live == 0
