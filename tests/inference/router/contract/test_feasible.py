"""What a deployment can't do is a 400 that names the field, and no worker hears of it (issue: before any is used)."""

from __future__ import annotations

from typing import Any

import msgspec
import openai
import pytest

from inference.contracts.abilities import LLGUIDANCE, Abilities
from inference.contracts.sampling import JsonGrammar
from inference.contracts.states import Role
from inference.router.openai import schemas
from tests.inference.router.conftest import MODEL, SHORT, Bench, eventually

ABLE = Abilities(vocab_size=300, max_answers=4, chat=True, tools=True, schemas=LLGUIDANCE)
FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"not": {}}}}}
IMPOSSIBLE = {"type": "string", "pattern": "(a"}


def formatted(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}


def tool(**more: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": FUNCTION | more}]}


async def started(bench: Bench, abilities: Abilities = ABLE) -> Bench:
    """Its context is 1000 tokens; 64 has an answer where no limit is named."""
    bench.pair()
    await bench.start()
    deployment = msgspec.structs.replace(bench.router.tables.deployments[0], abilities=abilities, embeddings=True)
    bench.publish_deployments(deployment)
    await eventually(lambda: bench.router.tables.deployments[0].embeddings)
    return bench


async def refused(bench: Bench, path: str, body: dict[str, Any]) -> tuple[int, str, str]:
    """Status, code and param of the answer; no worker was asked for it."""
    async with bench.http.post(path, json={"model": MODEL, **body}) as answer:
        error = (await answer.json())["error"]
        assert error["message"]
    assert not any(worker.calls for worker in bench.workers)
    assert error["type"] == "invalid_request_error"
    return answer.status, error["code"], error["param"]


CHAT = {"messages": [{"role": "user", "content": SHORT}]}
OF_CHATS: list[tuple[dict[str, Any], str, str]] = [
    ({"logit_bias": {"7": 1, "300": 1}}, "invalid_request", "logit_bias"),
    ({"n": 5}, "invalid_request", "n"),
    ({"max_tokens": 1000}, "context_length_exceeded", "max_tokens"),
    ({"max_completion_tokens": 1000}, "context_length_exceeded", "max_completion_tokens"),
    ({"min_tokens": 65}, "invalid_request", "min_tokens"),
    (formatted({"type": 7}), "invalid_request", "response_format"),
    (formatted(IMPOSSIBLE), "invalid_request", "response_format"),
    (tool(strict=True), "invalid_request", "tools"),
    (tool(parameters=IMPOSSIBLE | {"type": "object"}, strict=True) | formatted(IMPOSSIBLE), "invalid_request", "tools"),
    (tool(parameters={"type": "objekt"}) | {"tool_choice": "required"}, "invalid_request", "tools"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "code", "param"), OF_CHATS)
async def test_of_chats(bench: Bench, fields: dict[str, Any], code: str, param: str, stream: bool) -> None:
    await started(bench)
    body = CHAT | fields | {"stream": stream}
    assert await refused(bench, "/v1/chat/completions", body) == (400, code, param)
    await bench.at_rest()
    assert bench.router.key_limits.live("k1") == 0


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"prompt": [1, 300]}, "invalid_request", "prompt"),
        ({"prompt": [[1, 2], [1, 300]]}, "invalid_request", "prompt"),
        ({"prompt": ["text", [300]]}, "invalid_request", "prompt"),
        ({"prompt": [1] * 1000}, "context_length_exceeded", "prompt"),
        ({"prompt": [[1], [1] * 990], "max_tokens": 11}, "context_length_exceeded", "prompt"),
        ({"prompt": "text", "max_tokens": 1000}, "context_length_exceeded", "max_tokens"),
        ({"prompt": "text", "logit_bias": {"300": 1}}, "invalid_request", "logit_bias"),
        ({"prompt": "text", **formatted(IMPOSSIBLE)}, "invalid_request", "response_format"),
    ],
)
async def test_of_completions(bench: Bench, fields: dict[str, Any], code: str, param: str) -> None:
    await started(bench)
    assert await refused(bench, "/v1/completions", fields) == (400, code, param)


@pytest.mark.parametrize(
    ("path", "fields", "code", "param"),
    [
        ("/v1/embeddings", {"input": [1, 300]}, "invalid_request", "input"),
        ("/v1/embeddings", {"input": [[1], [300]]}, "invalid_request", "input"),
        ("/v1/embeddings", {"input": [[1], [1] * 1001]}, "context_length_exceeded", "input"),
        ("/detokenize", {"tokens": [1, 300]}, "invalid_request", "tokens"),
    ],
)
async def test_of_tokens_and_embeddings(bench: Bench, path: str, fields: dict[str, Any], code: str, param: str) -> None:
    await started(bench)
    assert await refused(bench, path, fields) == (400, code, param)


async def test_of_a_model_without_a_chat_template_or_with_one_whose_tools_are_not_known(bench: Bench) -> None:
    await started(bench, Abilities(chat=False))
    for path in ("/v1/chat/completions", "/tokenize"):
        assert await refused(bench, path, CHAT) == (400, "invalid_request", "messages")


async def test_of_a_model_whose_tools_are_in_a_format_that_is_not_known(bench: Bench) -> None:
    await started(bench, Abilities(chat=True, tools=False))
    for path in ("/v1/chat/completions", "/tokenize"):
        assert await refused(bench, path, CHAT | tool()) == (400, "invalid_request", "tools")
    assert (await bench.chat(SHORT, **tool(), tool_choice="none"))[0] == 200


async def test_what_the_deployment_can_do_just_so_is_asked_of_its_workers(bench: Bench) -> None:
    await started(bench)
    for fields in (
        {"logit_bias": {"299": 1}},
        {"n": 4},
        {"min_tokens": 64},
        {"min_tokens": 65, "max_tokens": 65},
        {"max_tokens": 999 - len(SHORT)},
        formatted({"type": "array", "items": {"type": "integer"}}),
        tool(),
        tool() | {"tool_choice": "required"},
    ):
        assert (await bench.chat(SHORT, **fields))[0] == 200, fields
    completion = await bench.openai.completions.create(model=MODEL, prompt=[299] * 10, max_tokens=2)
    assert completion.choices[0].text


async def test_what_is_not_known_of_a_deployment_is_left_to_its_workers(bench: Bench) -> None:
    """Of an older control plane or agent, or of another engine, whose library follows other schemas."""
    _, decode = bench.pair()
    await bench.start()
    for fields in (formatted({"not": {}}), formatted({"type": 7}), {"logit_bias": {"2000000000": 1}}, {"n": 128}):
        assert (await bench.chat(SHORT, **fields))[0] == 200
    other = msgspec.structs.replace(
        bench.router.tables.deployments[0], abilities=Abilities(schemas="xgrammar"), embeddings=True
    )
    bench.publish_deployments(other)
    await eventually(lambda: bench.router.tables.deployments[0].embeddings)
    assert (await bench.chat(SHORT, **formatted({"not": {}})))[0] == 200
    assert len(decode.reservations) == 5


async def test_a_schema_is_looked_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await started(bench)
    looked: list[object] = []
    fault = schemas.schema.fault
    monkeypatch.setattr(schemas.schema, "fault", lambda grammar: looked.append(grammar) or fault(grammar))
    for _ in range(2):
        await bench.chat(SHORT, **formatted({"type": "object"}))
        with pytest.raises(openai.BadRequestError, match="look-around"):
            await bench.openai.chat.completions.create(
                model=MODEL, **CHAT, **formatted({"type": "string", "pattern": "(?=a)b"})
            )
    assert len(looked) == 2
    assert len(bench.workers[1].reservations) == 2


async def test_only_so_many_verdicts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_KEPT", 2)
    judge = schemas.Schemas()
    for number in (1, 2, 1, 3, 1):
        await judge.require(JsonGrammar(schema=f'{{"const": {number}}}'), ABLE)
    assert len(judge._faults) == 2
    judge.close()


async def test_a_refused_schema_uses_up_nothing_of_what_its_key_may(bench: Bench) -> None:
    bench.keys[0] = msgspec.structs.replace(bench.keys[0], requests_per_minute=1, max_concurrent=1)
    await started(bench)
    await eventually(lambda: bench.router.tables.keyring is not None)
    for _ in range(3):
        assert (await refused(bench, "/v1/chat/completions", CHAT | formatted(IMPOSSIBLE)))[0] == 400
    assert (await bench.chat(SHORT))[0] == 200
    assert bench.workers[1].route.role is Role.DECODE
