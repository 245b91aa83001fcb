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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from inference.engine.threads import one_thread

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
    """layers: how many were packed, into so many products. gain: how many times as fast packed layers were when tried;
    None when they could not be. reason: why none was packed, else empty."""

    layers: int
    gain: float | None
    reason: str = ""
    products: int = 0


class PackedLinear(nn.Module):
    """As `layers`, one after the other, whose weights it lays out anew.

    Raises:
        RuntimeError: torch was built without the operators, or they do not take these weights.
    """

    def __init__(self, *layers: nn.Linear) -> None:
        super().__init__()
        try:
            # Not a parameter: its memory can't be seen as a matrix. Models do ask layers for the dtype of `weight`.
            self.weight = torch.ops.mkldnn._reorder_linear_weight(_stacked([layer.weight for layer in layers]))
        except AttributeError as error:
            raise RuntimeError("this build of torch has no packed linear layers") from error
        self.bias = None if layers[0].bias is None else torch.cat([layer.bias.detach() for layer in layers])

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")
        return product


class JoinedLinear(nn.Module):
    """One of several layers that are given the same rows: the first computes the product of all."""

    def __init__(self, joined: Joined, number: int) -> None:
        super().__init__()
        self._joined, self._number = joined, number

    @property
    def weight(self) -> torch.Tensor:
        weight: torch.Tensor = self._joined.packed.weight
        return weight

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self._joined.part(self._number, rows)


class Joined:
    """`layers` of one input as one product. What the first leaves for the others is let go with the last of them."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        self.packed = PackedLinear(*layers)
        self._sizes = [layer.out_features for layer in layers]
        self._rows: torch.Tensor | None = None
        self._parts: tuple[torch.Tensor, ...] = ()

    def part(self, number: int, rows: torch.Tensor) -> torch.Tensor:
        """The product of `rows` and layer `number`, whether the others were asked before or not."""
        if number == 0 or rows is not self._rows:
            self._rows, self._parts = rows, self.packed(rows).split(self._sizes, dim=-1)
        part = self._parts[number]
        if number == len(self._sizes) - 1:
            self._rows, self._parts = None, ()
        return part


@torch.inference_mode()
def pack_linears(model: nn.Module, together: Iterable[tuple[nn.Linear, ...]] = ()) -> Packing:
    """Replace the large linear layers of `model` by packed ones, if those compute the same and are faster here.

    together: layers that are given the same rows one after the other. Many small products cost more than one large one.
    """
    places = list(_large_linears(model))
    if not places:
        return Packing(0, None, "no layer is large enough")
    try:
        with one_thread():
            gain = _gain([layer for _, _, layer in places])
    except (RuntimeError, NotImplementedError) as error:
        return Packing(0, None, str(error))
    if gain < _LEAST_GAIN:
        return Packing(0, gain, "the layers as they are do as well on this processor")
    packed, products = _packed([layer for _, _, layer in places], together)
    for parent, name, layer in places:
        setattr(parent, name, packed[layer])
    _let_go_of_files(model)
    return Packing(len(packed), gain, products=products)


def _packed(
    layers: list[nn.Linear], together: Iterable[tuple[nn.Linear, ...]]
) -> tuple[dict[nn.Linear, PackedLinear | JoinedLinear], int]:
    """What is to stand in place of each layer, and of how many products. The layers lose their weights."""
    made: dict[nn.Linear, PackedLinear | JoinedLinear] = {}
    large, products = set(layers), 0
    for group in [*together, *((layer,) for layer in layers)]:
        if any(layer in made or layer not in large for layer in group) or not _alike(group):
            continue
        if len(group) > 1:
            joined = Joined(group)
            made |= {layer: JoinedLinear(joined, number) for number, layer in enumerate(group)}
        else:
            made[group[0]] = PackedLinear(group[0])
        products += 1
        for layer in group:
            del layer.weight  # at no time more than one product is held twice
    return made, products


def _alike(layers: Sequence[nn.Linear]) -> bool:
    """Whether their weights can stand in one matrix."""
    return len({(layer.in_features, layer.weight.dtype, layer.bias is None) for layer in layers}) == 1


def _stacked(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    return parts[0].detach() if len(parts) == 1 else torch.cat([part.detach() for part in parts])


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
    """The shortest of a few runs, of this thread alone: what else the host does at the start of a worker must not
    decide how it computes from then on."""
    times: list[float] = []
    for _ in range(_TRIES + 1):
        begin = time.thread_time()
        layer(given)
        times.append(time.thread_time() - begin)
    return min(times[1:])
