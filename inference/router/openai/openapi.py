"""The serving API in OpenAPI, made from the types that requests are read with and answers written with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from inference.contracts import codec
from inference.router.errors import ErrorBody
from inference.router.openai.chat_answer import ChatAnswer, ChatChunk
from inference.router.openai.completion_answer import CompletionAnswer
from inference.router.openai.embeddings import EmbeddingBody, EmbeddingList
from inference.router.openai.models import ModelEntry, ModelList
from inference.router.openai.request import ChatBody, CompletionBody
from inference.router.openai.tokens import ChatTextBody, TextBody, TextOfTokens, TokenList, TokensBody

_REFERENCE = "#/components/schemas/{name}"
_ERRORS = {
    "400": "a field is wrong, or not offered: `error.param` names it",
    "401": "no key, or one that is unknown, revoked or expired",
    "403": "the key is not for this model",
    "404": "no such model",
    "429": "the key has asked too much, in requests or tokens: `Retry-After` says when to come again",
    "502": "workers failed",
    "503": "nobody can serve now: `Retry-After` says when to come again",
    "504": "a worker did not answer in time",
}

_RATE_HEADERS = {
    f"x-ratelimit-{of}-{what}": {"description": f"{text.format(what)}; of keys with such a rate", "schema": schema}
    for what in ("requests", "tokens")
    for of, text, schema in (
        ("limit", "{} in any minute", {"type": "integer"}),
        ("remaining", "{} that are left of them now", {"type": "integer"}),
        ("reset", "until all {} are left again, as `12s`", {"type": "string"}),
    )
}
_RETRY_HEADER = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
#: Of answers to what counts against the limits of keys.
_HEADERS = {"200": _RATE_HEADERS, "400": _RATE_HEADERS, "429": _RETRY_HEADER | _RATE_HEADERS, "503": _RETRY_HEADER}


@dataclass(frozen=True, slots=True)
class _Operation:
    """bodies: it takes one of these. events: of which an answer consists that is asked for as a stream."""

    method: str
    path: str
    about: str
    answer: type[msgspec.Struct]
    bodies: tuple[type[msgspec.Struct], ...] = ()
    events: type[msgspec.Struct] | None = None


_OPERATIONS = (
    _Operation("post", "/v1/chat/completions", "Answer a chat.", ChatAnswer, (ChatBody,), ChatChunk),
    _Operation("post", "/v1/completions", "Go on with a text.", CompletionAnswer, (CompletionBody,), CompletionAnswer),
    _Operation("post", "/v1/embeddings", "What texts mean, as vectors.", EmbeddingList, (EmbeddingBody,)),
    _Operation("get", "/v1/models", "The models that this key may call now.", ModelList),
    _Operation("get", "/v1/models/{model}", "One of them.", ModelEntry),
    _Operation("post", "/tokenize", "The tokens of a text or a chat.", TokenList, (TextBody, ChatTextBody)),
    _Operation("post", "/detokenize", "The text of tokens.", TextOfTokens, (TokensBody,)),
)


@cache
def document() -> bytes:
    """The description, as JSON."""
    types = [kind for each in _OPERATIONS for kind in (each.answer, *each.bodies, each.events) if kind is not None]
    schemas, components = msgspec.json.schema_components([*types, ErrorBody], ref_template=_REFERENCE)
    known = dict(zip(types, schemas, strict=False))
    paths: dict[str, dict[str, Any]] = {}
    for each in _OPERATIONS:
        paths.setdefault(each.path, {})[each.method] = _operation(each, known, schemas[-1])
    return codec.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Tandem's serving API", "version": "1"},
            "security": [{"key": []}],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _operation(each: _Operation, known: Mapping[type, Any], error: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": known[each.answer]}}
    if each.events is not None:
        content["text/event-stream"] = {"schema": {"type": "string"}, "itemSchema": known[each.events]}
    described: dict[str, Any] = {
        "summary": each.about,
        "operationId": f"{each.method}{each.path.title()}".translate(str.maketrans("", "", "/{}")),
        "responses": {
            "200": {"description": "done", "content": content},
            **{
                status: {"description": text, "content": {"application/json": {"schema": error}}}
                for status, text in _ERRORS.items()
            },
        },
    }
    if each.bodies:
        for status, headers in _HEADERS.items():
            described["responses"][status]["headers"] = headers
        one_of = {"anyOf": [known[body] for body in each.bodies]}
        schema = one_of if len(each.bodies) > 1 else one_of["anyOf"][0]
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if "{model}" in each.path:
        described["parameters"] = [{"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}]
    return described
