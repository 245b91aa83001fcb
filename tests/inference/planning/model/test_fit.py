from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.models import KvLayers, ModelShape
from inference.contracts.states import DeviceKind
from inference.planning.model.faults import shape_fault
from inference.planning.model.fit import ALLOWANCE, Load, need
from inference.planning.model.shape import model_shape
from tests.inference.planning.model import known_models as known

GB = 10**9


def test_a_70b_model_in_16_bits_needs_two_devices_of_80_gb() -> None:
    shape = model_shape(known.LLAMA_3_1_70B)
    one = need(shape, Load(kv_tokens=16_384), DeviceKind.GPU)
    two = need(shape, Load(kv_tokens=16_384, tensor_parallel=2), DeviceKind.GPU)

    assert one is not None
    assert two is not None
    assert (one.weights, one.kv) == (141_107_412_992, 16_384 * 327_680)
    assert (two.weights, two.kv) == (one.weights // 2, one.kv // 2)
    assert one.total > 80 * GB > two.total


def test_auto_is_32_bits_on_processors_and_16_on_gpus() -> None:
    shape = model_shape(known.SMOLLM2_135M)
    cpu = need(shape, Load(kv_tokens=16_384), DeviceKind.CPU)
    gpu = need(shape, Load(kv_tokens=16_384), DeviceKind.GPU)

    assert cpu is not None
    assert gpu is not None
    assert (gpu.weights, gpu.kv) == (2 * 134_515_008, 377_487_360)
    assert cpu.kv == 2 * gpu.kv


def test_an_embedding_that_is_the_output_layer_too_is_held_twice_on_processors() -> None:
    for shape, twice in (
        (model_shape(known.SMOLLM2_135M), 49_152 * 576),
        (model_shape(known.LLAMA_3_1_8B), 0),
    ):
        cpu = need(shape, Load(kv_tokens=1), DeviceKind.CPU)
        gpu = need(shape, Load(kv_tokens=1), DeviceKind.GPU)

        assert cpu is not None
        assert gpu is not None
        assert cpu.weights == 2 * gpu.weights + 4 * twice


def test_quantised_weights_take_what_their_files_take() -> None:
    shape = model_shape(known.DEEPSEEK_V3, {"F8_E4M3": 680 * GB, "F32": GB})
    needed = need(shape, Load(kv_tokens=1, tensor_parallel=8), DeviceKind.GPU)

    assert needed is not None
    assert needed.weights == 681 * GB // 8
    assert need(model_shape(known.DEEPSEEK_V3), Load(kv_tokens=1), DeviceKind.GPU) is None


@pytest.mark.parametrize("unknown", ["parameters", "kv"])
def test_what_is_not_known_is_not_guessed(unknown: str) -> None:
    shape = msgspec.structs.replace(model_shape(known.LLAMA_3_1_8B), **{unknown: None})

    assert need(shape, Load(kv_tokens=1), DeviceKind.GPU) is None


@given(
    memory=st.integers(0, 10**12),
    kv_tokens=st.integers(1, 10**7),
    tensor_parallel=st.sampled_from([1, 2, 4, 8]),
    kind=st.sampled_from(DeviceKind),
)
def test_as_many_tokens_as_it_says_have_room_and_one_more_has_not(
    memory: int, kv_tokens: int, tensor_parallel: int, kind: DeviceKind
) -> None:
    shape = model_shape(known.LLAMA_3_1_8B)
    needed = need(shape, Load(kv_tokens=kv_tokens, tensor_parallel=tensor_parallel), kind)

    assert needed is not None
    most = needed.kv_tokens_max(memory)
    assert (kv_tokens <= most) == (needed.total <= memory)


def test_without_room_for_the_weights_there_is_none_for_a_token() -> None:
    needed = need(model_shape(known.LLAMA_3_1_8B), Load(kv_tokens=1), DeviceKind.GPU)

    assert needed is not None
    assert needed.kv_tokens_max(needed.weights) == 0
    assert needed.kv_tokens_max(needed.weights + ALLOWANCE[DeviceKind.GPU] + 10 * needed.kv_per_token) == 10


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (ModelShape(parameters=0), "parameters is 1 to"),
        (ModelShape(parameters=2**60), "parameters is 1 to"),
        (ModelShape(parameters=5, active_parameters=6), "active_parameters is above"),
        (ModelShape(tied_parameters=-1), "tied_parameters is 1 to"),
        (ModelShape(context_length=-1), "context_length is 1 to"),
        (ModelShape(weights_bytes={"BF16": 0}), "weights_bytes.BF16 is 1 to"),
        (ModelShape(kv=(KvLayers(layers=1, heads=0, head_elements=1),)), r"kv\[0\].heads is 1 to"),
        (ModelShape(kv=(KvLayers(layers=1, heads=1, head_elements=1, window=0),)), r"kv\[0\].window is 1 to"),
        (ModelShape(kv=(KvLayers(layers=1, heads=1, head_elements=1),) * 65), "kv has at most 64"),
        (ModelShape(architecture="x" * 101), "architecture has at most"),
        (ModelShape(engines={"native": "x" * 501}), "A reason in engines"),
    ],
)
def test_a_shape_that_no_model_has_is_told_in_words(shape: ModelShape, said: str) -> None:
    fault = shape_fault(shape)

    assert fault is not None
    assert re.search(said, fault)


def test_shapes_of_real_models_have_no_fault() -> None:
    assert shape_fault(ModelShape()) is None
    assert shape_fault(model_shape(known.DEEPSEEK_V3)) is None
