"""The models that clients can ask for, as OpenAI's clients expect them."""

from __future__ import annotations

from typing import Literal

import msgspec

from inference.contracts.routing import DeploymentRoute


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """max_model_len: tokens of prompt and answer together, as vLLM tells it; null while it is not known."""

    id: str
    created: int
    max_model_len: int | None
    object: Literal["model"] = "model"
    owned_by: str = "tandem"


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    data: list[ModelEntry]
    object: Literal["list"] = "list"


def model_list(deployments: list[DeploymentRoute]) -> ModelList:
    """One entry per model name that clients can ask for; of several deployments the first is described."""
    by_name: dict[str, DeploymentRoute] = {}
    for deployment in deployments:
        by_name.setdefault(deployment.model_name, deployment)
    return ModelList(data=[model_entry(name, deployment) for name, deployment in by_name.items()])


def model_entry(name: str, deployment: DeploymentRoute) -> ModelEntry:
    return ModelEntry(id=name, created=deployment.created, max_model_len=deployment.context_length)
