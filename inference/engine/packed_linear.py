"""Linear layers with weights laid out for the processor's matrix kernels (oneDNN), swapped in where they are faster.

A plain layer lays its weights out anew in every call, or runs a kernel that does without. Which of both ways is faster
depends on processor and library, so it is measured at start. Packed weights replace the plain ones: the model takes no
more memory, but for an output layer that shares its weights with the embedding, which needs them as they are.

Weights that were read are parts of one file that is mapped into memory, and stay there until the last of them is gone.
So what was not packed is copied out of it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

#: Matrices with fewer elements stay in the cache anyway.
_LEAST_ELEMENTS = 2**16

#: Rows that a layer is tried with: one answer, a batch of answers, a prompt.
_TRIED_ROWS = (1, 8, 64)
_TRIES = 3

#: How much faster packed weights must be to be worth it.
_LEAST_GAIN = 1.1

#: Largest relative error (2-norm) against the plain layer, the input being random.
_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


@dataclass(frozen=True, slots=True)
class Packing:
    """layers: how many were packed. gain: how many times as fast packed layers were when tried; None when they could
    not be. reason: why none was packed, else empty."""

    layers: int
    gain: float | None
    reason: str = ""


class PackedLinear(nn.Module):
    """As `layer`, whose weights it lays out anew.

    Raises:
        RuntimeError: torch was built without the operators, or they do not take these weights.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        try:
            # Not a parameter: its memory can't be seen as a matrix. Models do ask layers for the dtype of `weight`.
            self.weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
        except AttributeError as error:
            raise RuntimeError("this build of torch has no packed linear layers") from error
        self.bias = layer.bias

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")
        return product


@torch.inference_mode()
def pack_linears(model: nn.Module) -> Packing:
    """Replace the large linear layers of `model` by packed ones, if those compute the same and are faster here."""
    places = list(_large_linears(model))
    if not places:
        return Packing(0, None, "no layer is large enough")
    try:
        gain = _gain([layer for _, _, layer in places])
    except (RuntimeError, NotImplementedError) as error:
        return Packing(0, None, str(error))
    if gain < _LEAST_GAIN:
        return Packing(0, gain, "the layers as they are do as well on this processor")
    packed: dict[nn.Linear, PackedLinear] = {}
    for parent, name, layer in places:
        if layer not in packed:
            packed[layer] = PackedLinear(layer)
            del layer.weight  # at no time more than one layer is held twice
        setattr(parent, name, packed[layer])
    _let_go_of_files(model)
    return Packing(len(packed), gain)


def _let_go_of_files(model: nn.Module) -> None:
    """Give each parameter that is left memory of its own."""
    for parameter in model.parameters():
        if not parameter.untyped_storage().resizable():  # somebody else's memory
            parameter.data = parameter.data.clone()


def _large_linears(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    """Each layer to pack, with the module and the name that it has there."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear and layer.weight.numel() >= _LEAST_ELEMENTS:
                yield parent, name, layer


def _gain(layers: list[nn.Linear]) -> float:
    """How many times as fast `layers` are when packed: mean over the numbers of rows that are tried.

    Raises:
        RuntimeError: they can't be packed, or packed ones do not compute the same.
    """
    count = Counter(_kind(layer) for layer in set(layers))
    examples = {_kind(layer): layer for layer in layers}
    plain, packed = dict.fromkeys(_TRIED_ROWS, 0.0), dict.fromkeys(_TRIED_ROWS, 0.0)
    for kind, layer in examples.items():
        other = PackedLinear(layer)
        for rows in _TRIED_ROWS:
            given = torch.randn(1, rows, layer.in_features).to(layer.weight.dtype)
            _check_equal(layer, other, given)
            plain[rows] += count[kind] * _seconds(layer, given)
            packed[rows] += count[kind] * _seconds(other, given)
    return sum(plain[rows] / packed[rows] for rows in _TRIED_ROWS) / len(_TRIED_ROWS)


def _kind(layer: nn.Linear) -> tuple[Any, ...]:
    return layer.in_features, layer.out_features, layer.weight.dtype, layer.bias is None


def _check_equal(layer: nn.Linear, other: PackedLinear, given: torch.Tensor) -> None:
    expected = layer(given).float()
    error = float((other(given).float() - expected).norm() / expected.norm())
    if not error <= _TOLERANCE[layer.weight.dtype]:
        raise RuntimeError(f"a packed layer of {layer.out_features} x {layer.in_features} is wrong by {error:.1%}")


def _seconds(layer: Callable[[torch.Tensor], torch.Tensor], given: torch.Tensor) -> float:
    """The shortest of a few runs, as other processes only ever make a run longer."""
    times: list[float] = []
    for _ in range(_TRIES + 1):
        begin = time.perf_counter()
        layer(given)
        times.append(time.perf_counter() - begin)
    return min(times[1:])
