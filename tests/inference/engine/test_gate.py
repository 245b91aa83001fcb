"""Each kind of model that would be computed wrongly is refused, and told why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine import packed_linear, self_check
from inference.engine.attention import extents
from inference.engine.attention.extents import ExtentAttention
from inference.engine.attention.seam import ATTENTION
from inference.engine.gate import check_config, probe_geometry
from inference.engine.kv_cache import KVGeometry
from inference.engine.loader import load
from inference.engine.packed_linear import pack_linears
from inference.engine.same_input import linear_calls
from inference.engine.self_check import check_against_reference, reference_of
from inference.testing.tiny_model import FAMILIES, write_tiny_model

CPU = torch.device("cpu")

#: What each token sees per layer, in the families where that is not all.
WINDOWS = {"mistral": (32,) * 4, "gemma3_text": (24, 24, None, 24)}


def refusal_of(family: str, **fields: Any) -> str:
    config = CONFIG_MAPPING[family](**fields)
    with pytest.raises(TandemError) as caught:
        check_config(config, AutoModelForCausalLM._model_mapping[type(config)])
    assert (caught.value.code, caught.value.param) == (ErrorCode.INVALID_REQUEST, "model_path")
    return caught.value.message


@pytest.mark.parametrize(
    ("family", "fields", "reason"),
    [
        ("bart", {}, "encoder-decoder"),
        ("gemma3", {}, "more than text"),
        ("musicgen", {}, "encoder-decoder"),
        ("llama", {"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantised"),
        ("mamba", {}, "keeps a state"),
        ("deepseek_v3", {}, "MLA"),
        ("gemma3n_text", {}, "share keys and values"),
        ("gemma2", {}, "caps attention scores"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "looks ahead"),
        ("bloom", {}, "_supports_attention_backend"),
        ("llama4_text", {}, "chunked_attention"),
        ("qwen3_next", {}, "keeps a state"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "dynamic"),
        (
            "phi3",
            {
                "rope_parameters": {
                    "rope_type": "longrope",
                    "rope_theta": 1e4,
                    "long_factor": [1.0] * 48,
                    "short_factor": [1.0] * 48,
                    "original_max_position_embeddings": 4096,
                }
            },
            "longrope",
        ),
    ],
)
def test_a_configuration_that_can_not_be_computed_is_refused(family: str, fields: dict[str, Any], reason: str) -> None:
    assert reason in refusal_of(family, **fields)


def test_rope_is_looked_at_per_layer_type() -> None:
    plain = {"rope_type": "default", "rope_theta": 1e4}
    dynamic = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    assert "dynamic" in refusal_of(
        "gemma3_text", rope_parameters={"full_attention": dynamic, "sliding_attention": plain}
    )


def test_attention_sinks_are_seen_in_the_weights() -> None:
    config = CONFIG_MAPPING["gpt_oss"](
        vocab_size=32,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=1,
        pad_token_id=0,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    )
    check_config(config, AutoModelForCausalLM._model_mapping[type(config)])
    model = AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION)
    with pytest.raises(TandemError, match="attention sinks"), torch.inference_mode():
        probe_geometry(model, CPU)


def check(model: Any) -> None:
    reference = reference_of(model, CPU)
    check_against_reference(model, reference, probe_geometry(model, CPU), CPU, ExtentAttention(), 16)


@pytest.mark.parametrize("family", FAMILIES)
def test_supported_families_pass_all_gates(family: str, tmp_path: Path) -> None:
    model = load(str(write_tiny_model(tmp_path / family, family=family)), "auto", CPU).model
    with torch.inference_mode():
        geometry = probe_geometry(model, CPU)
        check(model)
    assert geometry == KVGeometry(layers=4, kv_heads=2, head_size=16, windows=WINDOWS.get(family, ()))
    assert model.config._attn_implementation == ATTENTION


#: Families that nobody here ever looked at, of all ages: with windows, without rotary embedding in some layers, with
#: positions that are added, parallel layers, shared experts, gates around attention.
UNKNOWN = [
    "afmoe", "apertus", "arcee", "cohere", "cohere2", "ernie4_5_moe", "exaone4", "flex_olmo", "gemma", "glm4",
    "glm4_moe", "gpt2", "gpt_neox", "granitemoe", "helium", "hunyuan_v1_dense", "jais2", "ministral", "nanochat",
    "nemotron", "olmo3", "opt", "persimmon", "phi", "qwen2_moe", "seed_oss", "smollm3", "starcoder2",
]  # fmt: skip


def random_model(family: str, **fields: Any) -> Any:
    """A tiny model of `family` whose windows, where it has some, are of 24 tokens."""
    sizes = {
        "vocab_size": 260, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 256,
        "initializer_range": 0.15, "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258,
        "sliding_window": 24, "num_local_experts": 4, "num_experts": 4, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    }  # fmt: skip
    config = CONFIG_MAPPING[family](**(sizes | fields))
    check_config(config, AutoModelForCausalLM._model_mapping[type(config)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION).eval()


@pytest.mark.parametrize("family", UNKNOWN)
def test_a_family_that_passes_the_gates_is_computed_rightly_beyond_its_windows(family: str, monkeypatch) -> None:
    monkeypatch.setattr(self_check, "_LENGTHS", (90, 61))
    model = random_model(family)
    with torch.inference_mode():
        check(model)


@pytest.mark.parametrize("family", [*FAMILIES, *UNKNOWN])
def test_layers_of_one_input_are_joined_in_any_family_without_harm(family: str, monkeypatch) -> None:
    monkeypatch.setattr(packed_linear, "_LEAST_ELEMENTS", 0)
    monkeypatch.setattr(packed_linear, "_gain", lambda _: 2.0)
    model = random_model(family)
    with torch.inference_mode():
        with linear_calls(model) as calls:
            geometry = probe_geometry(model, CPU)
        reference = reference_of(model, CPU)
        packing = pack_linears(model, calls.groups())
        check_against_reference(model, reference, geometry, CPU, ExtentAttention(), 16)
    assert packing.products > 0
    if family in ("llama", "mistral", "qwen3"):
        assert packing.layers - packing.products == 4 * (2 + 1)


@pytest.mark.parametrize(("family", "where"), [("phimoe", "masks but not"), ("olmoe", "attention but not its masks")])
def test_a_window_that_only_one_of_masks_and_attention_knows_is_refused(family: str, where: str) -> None:
    """Its prompts are shorter than the window, so the comparison alone would let it pass."""
    model = random_model(family)
    with torch.inference_mode(), pytest.raises(TandemError, match=f"{where}.* has a window of 24 tokens"):
        check(model)
    harmless = random_model(family, sliding_window=256)
    with torch.inference_mode():
        check(harmless)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_rounding_passes_the_comparison_and_a_wrong_scale_does_not(dtype: str, tmp_path: Path, monkeypatch) -> None:
    model = load(str(write_tiny_model(tmp_path / "model")), dtype, CPU).model
    with torch.inference_mode():
        check(model)
        plain = extents.scaled_dot_product_attention
        monkeypatch.setattr(
            extents, "scaled_dot_product_attention", lambda *a, **kw: plain(*a, **(kw | {"scale": kw["scale"] * 2}))
        )
        with pytest.raises(TandemError, match="logits differ"):
            check(model)


def test_layers_that_make_unlike_keys_and_values_are_refused(tmp_path: Path) -> None:
    model = load(str(write_tiny_model(tmp_path / "model")), "auto", CPU).model
    odd = model.model.layers[2].self_attn
    odd.k_proj = torch.nn.Linear(64, 16, bias=False)
    odd.v_proj = torch.nn.Linear(64, 16, bias=False)
    with pytest.raises(TandemError, match="differ in shape"), torch.inference_mode():
        probe_geometry(model, CPU)
