"""Which models there are, and what tokens they read."""

from __future__ import annotations

from typing import Any

import msgspec
import openai
import pytest

from inference.contracts import auth
from inference.contracts.routing import ServingKeyEntry
from inference.contracts.states import Role
from inference.testing.fleet import MODEL as STUB
from tests.inference.router.conftest import MODEL, Bench, eventually
from tests.inference.router.test_with_fleet import FleetBench, served  # noqa: F401 - a fixture

TOOL = {"type": "function", "function": {"name": "weather"}}


async def post(bench: Bench, path: str, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, Any]]:
    async with bench.http.post(path, json=body, headers=headers) as answer:
        return answer.status, await answer.json()


async def test_one_model_may_be_asked_for_by_either_of_its_names(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    model = await bench.openai.models.retrieve(MODEL)
    assert (model.id, model.object, model.created, model.owned_by) == (MODEL, "model", 1_700_000_000, "tandem")
    assert model.max_model_len == 1000
    assert (await bench.openai.models.retrieve("chat")).id == "chat"
    (listed,) = [entry async for entry in bench.openai.models.list()]
    assert listed == model


async def test_a_model_whose_name_has_a_slash_is_found(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    deployment = bench.router.tables.deployments[0]
    bench.publish_deployments(msgspec.structs.replace(deployment, model_name="org/model"))
    await eventually(lambda: bench.router.tables.find("org/model") is not None)
    for address in ("org/model", "org%2Fmodel"):
        async with bench.http.get(f"{bench.url}/v1/models/{address}") as answer:
            assert (answer.status, (await answer.json())["id"]) == (200, "org/model")


async def test_a_model_that_this_key_can_not_call_or_nobody_serves_does_not_exist(bench: Bench) -> None:
    _, decode = bench.pair()
    other = auth.new_serving_key()
    bench.keys.append(ServingKeyEntry(key_id="k2", digest=auth.key_digest(other), models=("another",)))
    await bench.start()
    with pytest.raises(openai.NotFoundError) as caught:
        await bench.openai.models.retrieve("gpt-9")
    assert caught.value.code == "model_not_found"
    async with bench.http.get(f"/v1/models/{MODEL}", headers={"Authorization": f"Bearer {other}"}) as answer:
        assert answer.status == 404
    bench.publish([decode])
    await eventually(lambda: len(bench.router.tables.deployments[0].workers) == 1)
    with pytest.raises(openai.NotFoundError):
        await bench.openai.models.retrieve(MODEL)


@pytest.fixture
async def fleet(served: FleetBench) -> Bench:  # noqa: F811
    return served.bench


async def test_a_text_is_told_as_its_tokens_and_back(fleet: Bench) -> None:
    status, told = await post(fleet, "/tokenize", {"model": STUB, "prompt": "Hi é", "return_token_strs": True})
    assert (status, told) == (
        200,
        {
            "count": 5,
            "max_model_len": 2048,
            "tokens": list("Hi é".encode()),
            "token_strs": ["H", "i", " ", "\N{REPLACEMENT CHARACTER}", "\N{REPLACEMENT CHARACTER}"],
        },
    )
    assert await post(fleet, "/detokenize", {"model": STUB, "tokens": told["tokens"]}) == (200, {"prompt": "Hi é"})
    assert await post(fleet, "/detokenize", {"model": STUB, "tokens": []}) == (200, {"prompt": ""})


async def test_a_chat_is_told_as_the_tokens_that_an_answer_would_be_charged_for(fleet: Bench) -> None:
    messages = [{"role": "user", "content": "Rain?"}]
    for tools in ([], [TOOL]):
        body = {"model": STUB, "messages": messages, "tools": tools}
        status, told = await post(fleet, "/tokenize", body)
        assert (status, told["token_strs"]) == (200, None)
        _, answer = await post(fleet, "/v1/chat/completions", body | {"max_tokens": 1})
        assert told["count"] == answer["usage"]["prompt_tokens"]
    _, closed = await post(fleet, "/tokenize", body | {"add_generation_prompt": False})
    assert closed["count"] == told["count"] - len("<assistant>")


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {"prompt": "Hi"}, "model"),
        ("/tokenize", {"model": STUB}, "prompt"),
        ("/tokenize", {"model": STUB, "prompt": ["Hi"]}, "prompt"),
        ("/tokenize", {"model": STUB, "prompt": ""}, "prompt"),
        ("/tokenize", {"model": STUB, "messages": []}, "messages"),
        ("/tokenize", {"model": STUB, "messages": [{"role": "user", "content": "x"}], "chat_template": "x"},
         "chat_template"),
        ("/detokenize", {"model": STUB}, "tokens"),
        ("/detokenize", {"model": STUB, "tokens": "Hi"}, "tokens"),
        ("/detokenize", {"model": STUB, "tokens": [-1]}, "tokens"),
        ("/detokenize", {"model": STUB, "tokens": [10**30]}, "tokens"),
        ("/detokenize", {"model": STUB, "tokens": [999_999]}, "tokens"),
    ],
)  # fmt: skip
async def test_what_can_not_be_told_is_refused_by_name(
    fleet: Bench, path: str, body: dict[str, Any], param: str
) -> None:
    status, answer = await post(fleet, path, body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert answer["error"]["param"].split("[")[0] == param


async def test_only_keys_may_ask_for_tokens_and_each_call_counts(fleet: Bench) -> None:
    body = {"model": STUB, "prompt": "Hi"}
    assert (await post(fleet, "/tokenize", body, Authorization="Bearer sk-wrong"))[0] == 401
    assert (await post(fleet, "/tokenize", body | {"model": "gpt-9"}))[0] == 404
    fleet.keys[0] = msgspec.structs.replace(fleet.keys[0], requests_per_minute=2)
    before = fleet.router.tables.keyring
    fleet.publish_deployments(*fleet.router.tables.deployments)
    await eventually(lambda: fleet.router.tables.keyring is not before)
    calls = [("/tokenize", body), ("/detokenize", {"model": STUB, "tokens": [65]}), ("/tokenize", body)]
    assert [(await post(fleet, path, asked))[0] for path, asked in calls] == [200, 200, 429]


async def test_a_worker_that_is_gone_costs_another_try(served: FleetBench) -> None:  # noqa: F811
    """Any worker will do, also one that drains."""
    served.fleet.decode[0].server.worker.state.draining = True
    for worker in served.fleet.prefill:
        await worker.stop()
    body = {"model": STUB, "prompt": "Hi"}
    assert {(await post(served.bench, "/tokenize", body))[0] for _ in range(8)} == {200}
    for worker in served.fleet.decode:
        await worker.stop()
    status, answer = await post(served.bench, "/tokenize", body)
    assert (status, answer["error"]["type"]) == (502, "server_error")


async def test_workers_of_an_older_release_do_not_know_how(bench: Bench) -> None:
    bench.worker(Role.UNIFIED)  # scripted workers have no such address
    await bench.start()
    status, answer = await post(bench, "/tokenize", {"model": MODEL, "prompt": "Hi"})
    assert (status, answer["error"]["type"]) == (502, "server_error")
