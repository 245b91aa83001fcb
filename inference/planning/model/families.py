"""Kinds of models whose layers are known, by the `model_type` of their configuration.

Only what is listed is worked out: a kind that nobody looked at may keep something else entirely. The layouts are those
of the classes in the `transformers` library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class QkNorm(StrEnum):
    """Norms of queries and keys. NONE; HEAD: one weight per element of a head; WHOLE: per element of all heads."""

    NONE = "none"
    HEAD = "head"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Family:
    """qkv_bias, o_bias: None: as `attention_bias` says. norms: of a layer, each of the hidden size. sinks: one number
    per query head and layer. expert_bias: experts and their router have biases. router_bias: one number per expert,
    kept apart from the router. defaults: what configurations of this kind leave out."""

    qkv_bias: bool | None = None
    o_bias: bool | None = None
    qk_norm: QkNorm = QkNorm.NONE
    norms: int = 2
    sinks: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    compressed: bool = False
    tied: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)


_GEMMA_3 = {
    "vocab_size": 262_208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "sliding_window": 4096,
    "sliding_window_pattern": 6,
}

FAMILIES: dict[str, Family] = {
    "llama": Family(),
    "mistral": Family(qkv_bias=False, o_bias=False),
    "mixtral": Family(qkv_bias=False, o_bias=False),
    "qwen2": Family(qkv_bias=True, o_bias=False, defaults={"use_sliding_window": False}),
    "qwen3": Family(qk_norm=QkNorm.HEAD, defaults={"use_sliding_window": False}),
    "qwen3_moe": Family(qk_norm=QkNorm.HEAD, defaults={"use_sliding_window": False, "decoder_sparse_step": 1}),
    "gemma": Family(tied=True),
    "gemma2": Family(norms=4, tied=True, defaults={"head_dim": 256, "sliding_window": 4096}),
    "gemma3_text": Family(norms=4, qk_norm=QkNorm.HEAD, tied=True, defaults=_GEMMA_3),
    "phi3": Family(qkv_bias=False, o_bias=False),
    "smollm3": Family(tied=True, defaults={"use_sliding_window": False}),
    "olmo2": Family(qk_norm=QkNorm.WHOLE),
    "granite": Family(),
    "deepseek_v3": Family(compressed=True, router_bias=True, defaults={"first_k_dense_replace": 3}),
    "gpt_oss": Family(qkv_bias=True, o_bias=True, sinks=True, expert_bias=True),
}

#: Kinds that are built exactly as another one.
FAMILIES["kimi_k2"] = FAMILIES["deepseek_v3"]
