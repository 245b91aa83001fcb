"""Which linear layers of a model are given the very same rows, one right after another: query, key and value of most
models, gate and up of their MLPs. They can be computed as one product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass(eq=False)
class LinearCalls:
    """Calls of linear layers, in order, each with the tensor that it was given."""

    calls: list[tuple[nn.Linear, torch.Tensor]] = field(default_factory=list)

    def groups(self) -> list[tuple[nn.Linear, ...]]:
        """Layers that follow each other with the same tensor, two or more, each called once in all."""
        times = Counter(layer for layer, _ in self.calls)
        groups: list[list[nn.Linear]] = []
        before: torch.Tensor | None = None
        for layer, rows in self.calls:
            if rows is not before or not groups:
                groups.append([])
            if times[layer] == 1:
                groups[-1].append(layer)
            before = rows
        return [tuple(group) for group in groups if len(group) > 1]


@contextmanager
def linear_calls(model: nn.Module) -> Iterator[LinearCalls]:
    """Notes the calls within `model` while the context lasts."""
    noted = LinearCalls()

    def note(layer: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        if type(layer) is nn.Linear:
            noted.calls.append((layer, given[0]))

    hooks = [each.register_forward_pre_hook(note) for each in model.modules() if type(each) is nn.Linear]
    try:
        yield noted
    finally:
        for hook in hooks:
            hook.remove()
