"""The models, listed and one by one, through the official client."""

from __future__ import annotations

import openai
import pytest

from tests.inference.router.conftest import MODEL, Bench, eventually


async def test_models_are_listed_and_retrieved(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    page = await bench.strict.models.list()
    assert (page.object, [model.id for model in page.data], page.has_next_page()) == ("list", [MODEL], False)
    assert [model async for model in bench.strict.models.list()] == page.data
    assert await bench.strict.models.retrieve(MODEL) == page.data[0]


async def test_what_nobody_serves_now_is_not_there(bench: Bench) -> None:
    _, decode = bench.pair()
    await bench.start()
    bench.publish([decode])
    await eventually(lambda: len(bench.router.tables.deployments[0].workers) == 1)
    assert (await bench.strict.models.list()).data == []
    for name in (MODEL, "gpt-9"):
        with pytest.raises(openai.NotFoundError) as caught:
            await bench.strict.models.retrieve(name)
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


async def test_nothing_is_deleted_here(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    with pytest.raises(openai.APIStatusError) as caught:
        await bench.strict.models.delete(MODEL)
    assert (caught.value.status_code, caught.value.code) == (405, "method_not_allowed")
