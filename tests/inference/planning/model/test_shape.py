from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.models import KvLayers
from inference.planning.model.config import NotUnderstood
from inference.planning.model.families import FAMILIES
from inference.planning.model.kv import kv_bytes_of_request, kv_bytes_per_token
from inference.planning.model.shape import model_shape
from tests.inference.planning.model import known_models as known

KIB = 1024


@pytest.mark.parametrize(
    ("config", "total"),
    [
        # The number of parameters that each model's page shows, which is counted from its files.
        pytest.param(known.SMOLLM2_135M, 134_515_008, id="SmolLM2-135M"),
        pytest.param(known.LLAMA_2_7B, 6_738_415_616, id="Llama-2-7b"),
        pytest.param(known.LLAMA_3_1_8B, 8_030_261_248, id="Llama-3.1-8B"),
        pytest.param(known.LLAMA_3_1_70B, 70_553_706_496, id="Llama-3.1-70B"),
        pytest.param(known.GEMMA_2B, 2_506_172_416, id="gemma-2b"),
        pytest.param(known.QWEN_2_5_05B, 494_032_768, id="Qwen2.5-0.5B"),
        pytest.param(known.QWEN_2_5_7B, 7_615_616_512, id="Qwen2.5-7B"),
        pytest.param(known.QWEN3_8B, 8_190_735_360, id="Qwen3-8B"),
        pytest.param(known.QWEN3_30B_A3B, 30_532_122_624, id="Qwen3-30B-A3B"),
        pytest.param(known.MISTRAL_7B_V0_1, 7_241_732_096, id="Mistral-7B-v0.1"),
        pytest.param(known.MISTRAL_7B_V0_3, 7_248_023_552, id="Mistral-7B-v0.3"),
        pytest.param(known.MIXTRAL_8X7B, 46_702_792_704, id="Mixtral-8x7B"),
        pytest.param(known.GEMMA_2_9B, 9_241_705_984, id="gemma-2-9b"),
        pytest.param(known.GEMMA_3_1B, 999_885_952, id="gemma-3-1b"),
    ],
)
def test_parameters_are_those_of_the_published_model(config: dict[str, Any], total: int) -> None:
    assert model_shape(config).parameters == total


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [
        # In billions, as their cards and papers say.
        pytest.param(known.MIXTRAL_8X7B, 46.7, 12.9, id="Mixtral-8x7B (arXiv:2401.04088: 47B, 13B)"),
        pytest.param(known.QWEN3_30B_A3B, 30.5, 3.3, id="Qwen3-30B-A3B (card: 30.5B, 3.3B)"),
        pytest.param(known.DEEPSEEK_V3, 671.0, 37.5, id="DeepSeek-V3 (arXiv:2412.19437: 671B, 37B)"),
        # Its card counts 3.61B active without the embedding table, which is 0.58B.
        pytest.param(known.GPT_OSS_20B, 20.9, 3.61 + 0.58, id="gpt-oss-20b (arXiv:2508.10925: 20.91B, 3.61B)"),
    ],
)
def test_a_token_uses_the_experts_that_are_chosen_for_it(config: dict[str, Any], total: float, active: float) -> None:
    shape = model_shape(config)

    assert shape.parameters is not None
    assert shape.active_parameters is not None
    assert shape.parameters / 1e9 == pytest.approx(total, rel=0.002)
    assert shape.active_parameters / 1e9 == pytest.approx(active, rel=0.02)


@pytest.mark.parametrize(
    ("config", "per_token"),
    [
        pytest.param(known.SMOLLM2_135M, 22.5 * KIB, id="SmolLM2-135M, 3 of 9 heads"),
        pytest.param(known.LLAMA_2_7B, 512 * KIB, id="Llama-2-7b, all heads"),
        pytest.param(known.LLAMA_3_1_8B, 128 * KIB, id="Llama-3.1-8B, a quarter of the heads"),
        pytest.param(known.LLAMA_3_1_70B, 320 * KIB, id="Llama-3.1-70B (Mooncake, FAST 25: 320 KB)"),
        pytest.param(known.GEMMA_2B, 18 * KIB, id="gemma-2b, one head"),
        pytest.param(known.QWEN_2_5_7B, 56 * KIB, id="Qwen2.5-7B, its window not used"),
        pytest.param(known.QWEN3_8B, 144 * KIB, id="Qwen3-8B (Mooncake: 4.5 GiB for 32768 tokens)"),
        pytest.param(known.QWEN3_30B_A3B, 96 * KIB, id="Qwen3-30B-A3B"),
        pytest.param(known.MIXTRAL_8X7B, 128 * KIB, id="Mixtral-8x7B"),
        pytest.param(known.DEEPSEEK_V3, 61 * 576 * 2, id="DeepSeek-V3, one latent of 512 + 64 a layer (68.6 KiB)"),
        pytest.param(known.GEMMA_2_9B, 336 * KIB, id="gemma-2-9b, every layer"),
        pytest.param(known.GEMMA_3_1B, 26 * KIB, id="gemma-3-1b, every layer"),
        pytest.param(known.GEMMA_3_4B, 136 * KIB, id="gemma-3-4b, 4 heads by default"),
        pytest.param(known.GPT_OSS_20B, 48 * KIB, id="gpt-oss-20b, every layer"),
    ],
)
def test_kv_of_a_token_in_16_bits(config: dict[str, Any], per_token: float) -> None:
    kv = model_shape(config).kv

    assert kv is not None
    assert kv_bytes_per_token(kv) == per_token


def layers(config: dict[str, Any]) -> list[tuple[int, int | None]]:
    kv = model_shape(config).kv
    assert kv is not None
    return [(each.layers, each.window) for each in kv]


def test_layers_with_a_window_forget_what_is_outside_of_it() -> None:
    assert layers(known.MISTRAL_7B_V0_1) == [(32, 4096)]
    assert layers(known.MISTRAL_7B_V0_3) == [(32, None)]
    assert layers(known.GEMMA_2_9B) == [(21, None), (21, 4096)]  # every second layer
    assert layers(known.GEMMA_3_1B) == [(4, None), (22, 512)]  # five of six (card: 5 local layers to 1 global)
    assert layers(known.GEMMA_3_4B) == [(5, None), (29, 1024)]
    assert layers(known.GPT_OSS_20B) == [(12, None), (12, 128)]


def test_windows_bound_the_kv_of_a_long_request() -> None:
    kv = model_shape(known.MISTRAL_7B_V0_1).kv
    assert kv is not None

    assert kv_bytes_of_request(kv, 1000) == 1000 * 128 * KIB
    assert kv_bytes_of_request(kv, 32_768) == kv_bytes_of_request(kv, 4096) == 4096 * 128 * KIB


def test_layers_of_a_qwen_slide_from_the_first_one_named_on() -> None:
    sliding = known.QWEN_2_5_7B | {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 20}

    assert layers(sliding) == [(20, None), (8, 4096)]


def test_layers_that_share_kv_keep_none_of_their_own() -> None:
    assert layers(known.LLAMA_3_1_8B | {"num_kv_shared_layers": 12}) == [(20, None)]


def test_layers_with_a_constant_state_count_nothing_per_token() -> None:
    mixed = known.LLAMA_3_1_8B | {"layer_types": ["linear_attention", "full_attention"] * 16}

    assert layers(mixed) == [(16, None)]


def test_kv_heads_are_split_over_devices_and_held_twice_where_there_are_too_few() -> None:
    kv = [KvLayers(layers=10, heads=4, head_elements=256)]

    assert kv_bytes_per_token(kv, tensor_parallel=2) == kv_bytes_per_token(kv) // 2
    assert kv_bytes_per_token(kv, tensor_parallel=8) == kv_bytes_per_token(kv, tensor_parallel=4)


def test_a_compressed_cache_is_whole_on_every_device() -> None:
    kv = model_shape(known.DEEPSEEK_V3).kv
    assert kv is not None

    assert kv_bytes_per_token(kv, tensor_parallel=8) == kv_bytes_per_token(kv)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "hyena", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2},
        {"model_type": "llama"},
        {},
        known.LLAMA_3_1_8B | {"layer_types": ["full_attention", "something_new"] * 16},
        known.LLAMA_3_1_8B | {"layer_types": ["full_attention"]},
        known.LLAMA_3_1_8B | {"layer_types": ["sliding_attention"] * 32},
        known.DEEPSEEK_V3 | {"kv_lora_rank": None},
        known.LLAMA_3_1_8B | {"num_hidden_layers": 2**31},
    ],
)
def test_what_nobody_looked_at_is_unknown_and_not_guessed(config: dict[str, Any]) -> None:
    assert model_shape(config).kv is None


def test_parameters_of_an_unknown_kind_come_from_its_files() -> None:
    config = {"model_type": "hyena"}

    assert model_shape(config).parameters is None
    assert model_shape(config, {"BF16": 2000, "F32": 400}).parameters == 1100


def test_numbers_packed_by_quantisation_are_not_counted_as_parameters() -> None:
    shape = model_shape(known.GPT_OSS_20B, {"U8": 12_000_000_000, "BF16": 3_000_000_000})

    assert shape.quantization == "mxfp4"
    assert shape.parameters == model_shape(known.GPT_OSS_20B).parameters
    assert shape.weights_bytes == {"U8": 12_000_000_000, "BF16": 3_000_000_000}


def test_parameters_of_submodels_that_are_not_described_are_unknown() -> None:
    assert model_shape(known.GEMMA_3_4B).parameters is None


def test_the_rest_is_read_too() -> None:
    shape = model_shape(known.LLAMA_3_1_8B)

    assert (shape.architecture, shape.context_length, shape.dtype) == ("llama", 131_072, "bfloat16")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (known.SMOLLM2_135M, ""),
        (known.LLAMA_3_1_8B, ""),
        (known.MIXTRAL_8X7B, ""),
        (known.GEMMA_3_1B, ""),
        (known.GEMMA_3_4B, "it takes more than text (it has sub-models)"),
        (known.GEMMA_2_9B, "it caps attention scores"),
        (known.DEEPSEEK_V3, "its weights are quantised"),
        (known.DEEPSEEK_V3 | {"quantization_config": None}, "it compresses keys and values (MLA)"),
        (known.GPT_OSS_20B | {"quantization_config": None}, "it has attention sinks"),
        (
            known.LLAMA_3_1_8B | {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "its rotary embedding (dynamic) depends on other requests in the batch",
        ),
        (
            known.LLAMA_3_1_8B | {"layer_types": ["chunked_attention"] * 32, "attention_chunk_size": 8192},
            "it has layers of kind chunked_attention",
        ),
    ],
)
def test_what_the_native_engine_has_against_a_model(config: dict[str, Any], reason: str) -> None:
    assert model_shape(config).engines == {"native": reason}


@pytest.mark.parametrize(
    "config",
    [
        None,
        [],
        "llama",
        {"model_type": 7},
        {"num_hidden_layers": "many"},
        {"num_hidden_layers": -1},
        {"hidden_size": 2**70},
        {"layer_types": [1, 2]},
    ],
)
def test_what_is_no_configuration_is_refused_in_words(config: object) -> None:
    with pytest.raises(NotUnderstood, match="configuration"):
        model_shape(config)


_FIELDS = sorted({*known.DEEPSEEK_V3, *known.GPT_OSS_20B, *known.GEMMA_3_4B, *known.QWEN3_30B_A3B, "mlp_bias"})


@given(
    kind=st.sampled_from([*FAMILIES, "other"]),
    base=st.sampled_from([known.DEEPSEEK_V3, known.GPT_OSS_20B, known.QWEN3_30B_A3B, known.GEMMA_3_4B]),
    changes=st.dictionaries(
        st.sampled_from(_FIELDS), st.none() | st.booleans() | st.integers(-2, 2**33) | st.text(max_size=4), max_size=6
    ),
)
def test_no_configuration_breaks_it(kind: str, base: dict[str, Any], changes: dict[str, Any]) -> None:
    try:
        shape = model_shape({**base, "model_type": kind, **changes})
    except NotUnderstood:
        return
    assert shape.parameters is None or shape.active_parameters is None or shape.active_parameters <= shape.parameters
