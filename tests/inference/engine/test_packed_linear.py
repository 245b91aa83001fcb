from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from inference.engine import packed_linear
from inference.engine.packed_linear import PackedLinear, Packing, pack_linears
from inference.engine.same_input import linear_calls

LARGE = 256


class Model(nn.Module):
    """A large layer, a small one, and an output layer tied to the embedding."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(LARGE, LARGE, dtype=dtype)
        self.inner = nn.Sequential(nn.Linear(LARGE, LARGE, dtype=dtype), nn.Linear(LARGE, LARGE, False, dtype=dtype))
        self.gate = nn.Linear(LARGE, 3, dtype=dtype)
        self.head = nn.Linear(LARGE, LARGE, bias=False, dtype=dtype)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.inner(self.embedding(ids))
        return torch.cat([self.head(hidden), self.gate(hidden)], dim=-1)


@pytest.fixture(autouse=True)
def _packed_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine that runs the tests."""
    monkeypatch.setattr(packed_linear, "_seconds", lambda layer, _: 0.5 if isinstance(layer, PackedLinear) else 1.0)


def packs(dtype: torch.dtype) -> bool:
    """Whether this processor and this torch can do it at all."""
    try:
        PackedLinear(nn.Linear(LARGE, LARGE, dtype=dtype))
    except (RuntimeError, NotImplementedError):
        return False
    return True


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("rows", [0, 1, 3, 8, 100])
def test_a_packed_model_computes_the_same(dtype: torch.dtype, tolerance: float, rows: int) -> None:
    if not packs(dtype):
        pytest.skip(f"no packed layers of {dtype} here")
    model = Model(dtype)
    ids = torch.arange(rows).unsqueeze(0)
    with torch.inference_mode():
        expected = model(ids)
        packing = pack_linears(model)
        assert (packing.layers, packing.gain, packing.reason) == (3, 2.0, "")
        torch.testing.assert_close(model(ids), expected, rtol=tolerance, atol=tolerance)


class Siblings(nn.Module):
    """Three layers of one input, and one of another, as in attention."""

    def __init__(self, dtype: torch.dtype = torch.float32, *, bias: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query = nn.Linear(LARGE, LARGE, bias, dtype=dtype)
        self.key = nn.Linear(LARGE, 2 * LARGE, bias, dtype=dtype)
        self.value = nn.Linear(LARGE, LARGE, bias, dtype=dtype)
        self.output = nn.Linear(LARGE, LARGE, bias, dtype=dtype)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        mixed = self.query(rows) * self.key(rows)[..., :LARGE] + self.value(rows)
        return self.output(mixed)


def packed_together(model: nn.Module, given: torch.Tensor) -> Packing:
    with linear_calls(model) as calls:
        model(given)
    return pack_linears(model, calls.groups())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_layers_of_one_input_are_one_product(dtype: torch.dtype, tolerance: float, bias: bool) -> None:
    if not packs(dtype):
        pytest.skip(f"no packed layers of {dtype} here")
    model = Siblings(dtype, bias=bias)
    first, second = torch.randn(2, 1, 5, LARGE).to(dtype)
    with torch.inference_mode():
        expected = model(first), model(second)
        packing = packed_together(model, first)
        assert (packing.layers, packing.products) == (4, 2)
        for given, wanted in zip((first, second, first), (*expected, expected[0]), strict=True):
            torch.testing.assert_close(model(given), wanted, rtol=tolerance, atol=tolerance)


def test_joined_layers_can_be_asked_in_any_order_and_with_rows_of_their_own() -> None:
    model = Siblings()
    first, second = torch.randn(2, 3, LARGE)
    with torch.inference_mode():
        expected = {name: getattr(model, name)(second) for name in ("query", "key", "value")}
        packed_together(model, first)
        model.query(first)
        for name in ("value", "key", "query", "key"):
            torch.testing.assert_close(getattr(model, name)(second), expected[name])


def test_nothing_of_a_step_is_held_once_all_joined_layers_were_asked() -> None:
    model = Siblings()
    given = torch.randn(3, LARGE)
    with torch.inference_mode():
        packed_together(model, given)
        model(given)
    assert model.query._joined._rows is None
    assert model.query.weight.dtype is torch.float32


def test_layers_that_do_not_always_come_together_are_packed_apart() -> None:
    model = Siblings()
    given = torch.randn(3, LARGE)
    with linear_calls(model) as calls:
        model(given)
        model.key(given.clone())
    assert calls.groups() == [(model.query, model.value)]


def test_small_layers_and_the_embedding_stay_as_they_are() -> None:
    model = Model()
    pack_linears(model)
    assert type(model.gate) is nn.Linear
    assert model.embedding.weight.shape == (LARGE, LARGE)
    assert {name for name, _ in model.named_parameters()} == {"embedding.weight", "gate.weight", "gate.bias"}


def test_a_layer_that_stands_in_two_places_is_packed_once() -> None:
    model = nn.Sequential(nn.Sequential(shared := nn.Linear(LARGE, LARGE)), nn.Sequential(shared))
    given = torch.randn(2, LARGE)
    with torch.inference_mode():
        expected = model(given)
        assert pack_linears(model).layers == 1
        assert model[0][0] is model[1][0]
        torch.testing.assert_close(model(given), expected)


def test_a_packed_layer_still_tells_the_dtype_of_its_weight() -> None:
    assert PackedLinear(nn.Linear(LARGE, LARGE)).weight.dtype is torch.float32


def assert_left_alone(model: Model, reason: str) -> None:
    packing = pack_linears(model)
    assert packing.layers == 0
    assert reason in packing.reason
    assert not any(isinstance(module, PackedLinear) for module in model.modules())


def test_layers_that_are_not_faster_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linear, "_seconds", lambda *_: 1.0)
    assert_left_alone(Model(), "do as well")


def test_what_else_the_host_does_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    def held_up(_: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return torch.empty(0)

    assert packed_linear._seconds(held_up, torch.empty(0)) < 0.01


def test_layers_that_compute_something_else_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PackedLinear, "forward", lambda self, rows: rows * 2)
    assert_left_alone(Model(), "is wrong by")


def test_a_torch_without_the_operators_runs_the_layers_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoOperators:
        pass

    monkeypatch.setattr(torch.ops, "mkldnn", NoOperators())
    assert_left_alone(Model(), "has no packed linear layers")


def test_a_model_of_small_layers_is_left_alone() -> None:
    assert "large enough" in pack_linears(nn.Sequential(nn.Linear(8, 8))).reason
