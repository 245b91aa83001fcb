"""The fields of a model's config.json that serving depends on. Everything else in it is ignored."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from inference.planning.model.families import FAMILIES

#: Larger than any number of a model; keeps what is worked out from several of them within 64 bits and a little.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**32)]


class NotUnderstood(Exception):
    """The configuration can't be read; one sentence on why."""


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Names are those of the file. None: not given, and no default is known for this family."""

    model_type: str = ""
    hidden_size: _Count | None = None
    intermediate_size: _Count | None = None
    vocab_size: _Count | None = None
    num_hidden_layers: _Count | None = None
    num_attention_heads: _Count | None = None
    num_key_value_heads: _Count | None = None
    head_dim: _Count | None = None
    max_position_embeddings: _Count | None = None
    tie_word_embeddings: bool | None = None
    attention_bias: bool | None = None
    mlp_bias: bool | None = None
    dtype: str | None = None
    torch_dtype: str | None = None
    quantization_config: dict[str, Any] | None = None

    # which layers keep what
    layer_types: tuple[str, ...] | None = None
    sliding_window: _Count | None = None
    sliding_window_pattern: _Count | None = None
    use_sliding_window: bool | None = None
    max_window_layers: _Count | None = None
    attention_chunk_size: _Count | None = None
    num_kv_shared_layers: _Count | None = None

    # a compressed cache (MLA)
    kv_lora_rank: _Count | None = None
    q_lora_rank: _Count | None = None
    qk_nope_head_dim: _Count | None = None
    qk_rope_head_dim: _Count | None = None
    v_head_dim: _Count | None = None

    # experts
    num_experts_per_tok: _Count | None = None
    num_experts: _Count | None = None
    num_local_experts: _Count | None = None
    n_routed_experts: _Count | None = None
    n_shared_experts: _Count | None = None
    moe_intermediate_size: _Count | None = None
    first_k_dense_replace: _Count | None = None
    moe_layer_freq: _Count | None = None
    decoder_sparse_step: _Count | None = None
    mlp_only_layers: tuple[int, ...] | None = None

    # what some engines can't compute
    is_encoder_decoder: bool | None = None
    attn_logit_softcapping: float | None = None
    use_bidirectional_attention: bool | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None

    #: Whether it takes more than text: the file describes sub-models, and the rest of this is of the one for text.
    has_submodels: bool = False

    @property
    def head_size(self) -> int | None:
        """Of a query head, where it is not compressed."""
        if self.head_dim:
            return self.head_dim
        if not self.hidden_size or not self.num_attention_heads:
            return None
        return self.hidden_size // self.num_attention_heads

    @property
    def kv_heads(self) -> int | None:
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def experts(self) -> int | None:
        return self.num_experts or self.num_local_experts or self.n_routed_experts


def config_read(raw: object) -> ModelConfig:
    """raw: config.json, decoded.

    Raises:
        NotUnderstood: it is no configuration of a model.
    """
    if not isinstance(raw, dict):
        raise NotUnderstood("a model's configuration is a JSON object")
    inner = raw.get("text_config")
    submodels = isinstance(inner, dict)
    text: dict[str, Any] = inner if isinstance(inner, dict) else raw
    shared = {name: raw[name] for name in ("torch_dtype", "dtype", "quantization_config") if raw.get(name) is not None}
    kind = text.get("model_type") or raw.get("model_type") or ""
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    defaults = dict(family.defaults) if family is not None else {}
    merged = {**defaults, **shared, **text, "model_type": kind, "has_submodels": submodels}
    try:
        return msgspec.convert(merged, ModelConfig)
    except msgspec.ValidationError as error:
        raise NotUnderstood(f"its configuration can't be read: {error}") from error
