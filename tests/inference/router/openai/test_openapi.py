"""The description of the serving API is one that tools can read, and says what is served."""

from __future__ import annotations

import json

import schemathesis

from inference.contracts import codec
from inference.router.openai.chat_answer import ChatAnswer, ChatChunk
from inference.router.openai.completion_answer import CompletionAnswer
from inference.router.openai.models import ModelList
from inference.router.openai.openapi import document
from tests.inference.router.conftest import MODEL, SHORT, Bench

#: Addresses that are no part of what models are asked for.
APART = {"/openapi.json", "/health/live", "/health/ready", "/health", "/ready", "/metrics"}
SCHEMA = json.loads(document())


def test_tools_can_read_it() -> None:
    read = schemathesis.openapi.from_dict(SCHEMA)
    operations = [result.ok() for result in read.get_all_operations()]
    assert len(operations) == sum(len(methods) for methods in SCHEMA["paths"].values())


def test_every_reference_has_its_end() -> None:
    text = document().decode()
    for name in SCHEMA["components"]["schemas"]:
        text = text.replace(f'"#/components/schemas/{name}"', "")
    assert "#/components" not in text


def test_the_fields_of_a_chat_are_named_with_what_they_may_be() -> None:
    chat = SCHEMA["components"]["schemas"]["ChatBody"]
    assert chat["required"] == ["model", "messages"]
    for field in ("tools", "tool_choice", "logit_bias", "response_format", "max_completion_tokens"):
        assert field in chat["properties"]
    prompt = SCHEMA["components"]["schemas"]["CompletionBody"]["properties"]["prompt"]
    assert {"type": "string"} in prompt["anyOf"]


def test_what_counts_against_limits_of_keys_tells_how_they_stand() -> None:
    for path, counts in (("/v1/completions", True), ("/tokenize", True), ("/v1/models", False)):
        (operation,) = SCHEMA["paths"][path].values()
        headers = operation["responses"]["429"].get("headers", {})
        wanted = {
            f"x-ratelimit-{of}-{what}" for of in ("limit", "remaining", "reset") for what in ("requests", "tokens")
        }
        assert set(headers) == (wanted | {"Retry-After"} if counts else set())


async def test_every_address_that_is_served_is_described_and_no_other(bench: Bench) -> None:
    await bench.start()
    async with bench.http.get("/openapi.json", headers={"Authorization": ""}) as answer:
        assert (answer.status, await answer.json()) == (200, SCHEMA)
    app = bench.router._runner.app
    served = {
        (resource.canonical, route.method.lower())
        for resource in app.router.resources()
        for route in resource
        if route.method != "HEAD"
    }
    described = {(path, method) for path, methods in SCHEMA["paths"].items() for method in methods}
    assert {each for each in served if each[0] not in APART} == described


async def test_answers_are_of_the_types_that_it_is_made_from(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    chat = {"model": MODEL, "messages": [{"role": "user", "content": SHORT}], "logprobs": True}
    async with bench.http.post("/v1/chat/completions", json=chat) as answer:
        assert codec.decode(await answer.read(), ChatAnswer).object == "chat.completion"
    async with bench.http.post("/v1/completions", json={"model": MODEL, "prompt": [SHORT, [1, 2]]}) as answer:
        assert len(codec.decode(await answer.read(), CompletionAnswer).choices) == 2
    async with bench.http.get("/v1/models") as answer:
        assert codec.decode(await answer.read(), ModelList).data[0].id == MODEL
    for _, data in (await bench.stream(SHORT))[:-2]:
        assert codec.decode(data, ChatChunk).object == "chat.completion.chunk"
