"""Messages between router and workers about embeddings: what texts mean, as vectors."""

from __future__ import annotations

import msgspec

from inference.contracts.prompts import Prompt


class EmbedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks any worker of a deployment whose engine makes embeddings for those of `inputs`: texts or tokens."""

    request_id: str
    model_name: str
    inputs: tuple[Prompt, ...]


class Embedded(msgspec.Struct, frozen=True, kw_only=True):
    """vectors: one for each input, as float32 in little-endian order. tokens: of all inputs."""

    vectors: tuple[bytes, ...]
    tokens: int
