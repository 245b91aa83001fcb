"""How much KV a model keeps: per token, and for one request. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from inference.contracts.models import KvLayers
from inference.planning.model.config import ModelConfig
from inference.planning.model.families import FAMILIES

#: Bytes of one number of the KV cache where nothing else is said: bfloat16, float16.
HALF = 2

_FULL = "full_attention"
_SLIDING = "sliding_attention"
_CHUNKED = "chunked_attention"

#: Layers that keep a state of constant size instead.
_STATEFUL = "linear_attention"


def kv_layers(config: ModelConfig) -> tuple[KvLayers, ...] | None:
    """What the layers keep, alike ones together; None where that is not known."""
    family = FAMILIES.get(config.model_type)
    kinds = _kinds(config)
    if family is None or kinds is None:
        return None
    if family.compressed:
        if config.kv_lora_rank is None or config.qk_rope_head_dim is None:
            return None
        heads, elements = 1, config.kv_lora_rank + config.qk_rope_head_dim
    else:
        if not config.kv_heads or not config.head_size:
            return None
        heads, elements = config.kv_heads, 2 * config.head_size
    counted: Counter[int | None] = Counter()
    for kind in kinds:
        if kind == _STATEFUL:
            continue
        if kind not in (_FULL, _SLIDING, _CHUNKED):
            return None
        window = {_SLIDING: config.sliding_window, _CHUNKED: config.attention_chunk_size}.get(kind)
        if window is None and kind != _FULL:
            return None
        counted[window] += 1
    return tuple(
        KvLayers(layers=number, heads=heads, head_elements=elements, window=window)
        for window, number in sorted(counted.items(), key=lambda each: (each[0] is not None, each[0] or 0))
    )


def _kinds(config: ModelConfig) -> Sequence[str] | None:
    """The kind of each layer that keeps KV of its own."""
    layers = config.num_hidden_layers
    if not layers or layers > 10_000:
        return None
    kept = layers - min(config.num_kv_shared_layers or 0, layers)
    if config.layer_types is not None:
        return config.layer_types[:kept] if len(config.layer_types) == layers else None
    return [_kind(config, index) for index in range(kept)]


def _kind(config: ModelConfig, index: int) -> str:
    """Of a layer, where the configuration does not list them."""
    slides = config.sliding_window is not None and config.use_sliding_window is not False
    match config.model_type:
        case "gemma2":
            slides = slides and index % 2 == 0
        case "gemma3_text":
            slides = slides and (index + 1) % (config.sliding_window_pattern or 1) != 0
        case "gpt_oss":
            slides = slides and index % 2 == 0
        case "qwen2" | "qwen3":
            slides = slides and index >= (config.max_window_layers or 0)
    return _SLIDING if slides else _FULL


def kv_bytes_per_token(kv: Sequence[KvLayers], *, element_bytes: int = HALF, tensor_parallel: int = 1) -> int:
    """On each device, for a token that every layer keeps."""
    return sum(each.layers * -(-each.heads // tensor_parallel) * each.head_elements * element_bytes for each in kv)


def kv_bytes_of_request(kv: Sequence[KvLayers], tokens: int, *, element_bytes: int = HALF) -> int:
    """Of one request with so many tokens, where layers with a window forget what is outside of it."""
    return sum(
        min(tokens, each.window or tokens) * kv_bytes_per_token([each], element_bytes=element_bytes) for each in kv
    )
