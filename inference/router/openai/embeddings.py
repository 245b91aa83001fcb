"""Embeddings as OpenAI's clients ask for them and expect them."""

from __future__ import annotations

import base64
from array import array
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from inference.contracts.embeddings import Embedded
from inference.contracts.prompts import Prompt
from inference.router.errors import bad_request
from inference.router.openai.body import read_body
from inference.router.openai.prompts import prompt_schema, read_prompts

MAX_INPUTS = 256

#: What is not offered, with the values that ask for nothing (besides null).
_NOT_OFFERED: dict[str, tuple[object, ...]] = {
    "dimensions": (),
    "messages": (),
    "truncate_prompt_tokens": (),
    "add_special_tokens": (True,),
}


class EmbeddingBody(msgspec.Struct):
    model: str
    input: Annotated[Any, msgspec.Meta(extra_json_schema=prompt_schema(MAX_INPUTS))]
    encoding_format: Literal["float", "base64"] | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingsAsked:
    """as_text: vectors as base64 of float32 in little-endian order, which is what OpenAI's client asks for."""

    model: str
    inputs: tuple[Prompt, ...]
    as_text: bool


class EmbeddingUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    total_tokens: int


class Embedding(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    embedding: list[float] | str
    object: Literal["embedding"] = "embedding"


class EmbeddingList(msgspec.Struct, frozen=True, kw_only=True):
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
    object: Literal["list"] = "list"


def read_embeddings(body: bytes) -> EmbeddingsAsked:
    """A body of POST /v1/embeddings.

    Raises:
        ApiError: 400 with the field at fault.
    """
    asked = read_body(body, EmbeddingBody, _NOT_OFFERED)
    inputs = read_prompts(asked.input, "input", MAX_INPUTS)
    if asked.input == "" or (isinstance(asked.input, list) and "" in asked.input):
        raise bad_request("input must not hold an empty text.", "input")
    return EmbeddingsAsked(asked.model, inputs, asked.encoding_format == "base64")


def embedding_list(asked: EmbeddingsAsked, embedded: Embedded) -> EmbeddingList:
    """The vectors in the order of the inputs."""
    written = _as_text if asked.as_text else _as_numbers
    return EmbeddingList(
        data=[Embedding(index=index, embedding=written(vector)) for index, vector in enumerate(embedded.vectors)],
        model=asked.model,
        usage=EmbeddingUsage(embedded.tokens, embedded.tokens),
    )


def _as_text(vector: bytes) -> str:
    return base64.b64encode(vector).decode()


def _as_numbers(vector: bytes) -> list[float]:
    return array("f", vector).tolist()
