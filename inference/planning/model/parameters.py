"""How many parameters a model has, counted from its configuration. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from inference.planning.model.config import ModelConfig
from inference.planning.model.families import FAMILIES, Family, QkNorm


@dataclass(frozen=True, slots=True)
class Parameters:
    """active: without the experts that one token does not use."""

    total: int
    active: int


class _Unknown(Exception):
    """A number is missing that everything depends on."""


def parameters(config: ModelConfig) -> Parameters | None:
    """None where they can't be told: an unknown kind, sub-models that are not described here, missing numbers."""
    family = FAMILIES.get(config.model_type)
    if family is None or config.has_submodels:
        return None
    try:
        return _counted(config, family)
    except _Unknown:
        return None


def tied_parameters(config: ModelConfig) -> int | None:
    """Of an embedding that is the output layer as well, 0 where it is not; None where that can't be told."""
    family = FAMILIES.get(config.model_type)
    tied = _tied(config, family)
    if tied is None or not config.vocab_size or not config.hidden_size:
        return None
    return config.vocab_size * config.hidden_size if tied else 0


def _tied(config: ModelConfig, family: Family | None) -> bool | None:
    if config.tie_word_embeddings is not None:
        return config.tie_word_embeddings
    return None if family is None else family.tied


def _counted(config: ModelConfig, family: Family) -> Parameters:
    hidden, layers = _known(config.hidden_size), _known(config.num_hidden_layers)
    embedding = _known(config.vocab_size) * hidden
    outside = embedding * (1 if _tied(config, family) else 2) + hidden
    attention = (_compressed if family.compressed else _attention)(config, family)
    experts = sum(_has_experts(config, index) for index in range(min(layers, 10_000)))
    plain = layers - experts
    common = outside + layers * (attention + family.norms * hidden) + (plain * _mlp(config) if plain else 0)
    if not experts:
        return Parameters(common, common)
    expert, around = _expert(config, family), _around_experts(config, family)
    used = min(_known(config.num_experts_per_tok), _known(config.experts))
    return Parameters(
        total=common + experts * (around + _known(config.experts) * expert),
        active=common + experts * (around + used * expert),
    )


def _attention(config: ModelConfig, family: Family) -> int:
    hidden, size = _known(config.hidden_size), _known(config.head_size)
    queries, keys = _known(config.num_attention_heads) * size, _known(config.kv_heads) * size
    given = bool(config.attention_bias)
    qkv_bias = given if family.qkv_bias is None else family.qkv_bias
    o_bias = given if family.o_bias is None else family.o_bias
    norms = {QkNorm.NONE: 0, QkNorm.HEAD: 2 * size, QkNorm.WHOLE: queries + keys}[family.qk_norm]
    return (
        2 * hidden * (queries + keys)
        + (queries + 2 * keys if qkv_bias else 0)
        + (hidden if o_bias else 0)
        + norms
        + (_known(config.num_attention_heads) if family.sinks else 0)
    )


def _compressed(config: ModelConfig, family: Family) -> int:
    """Multi-head latent attention: keys and values are unpacked from one small vector per token."""
    hidden, heads, latent = (
        _known(each) for each in (config.hidden_size, config.num_attention_heads, config.kv_lora_rank)
    )
    rope, plain = _known(config.qk_rope_head_dim), _known(config.qk_nope_head_dim)
    values, queries = _known(config.v_head_dim), heads * (rope + plain)
    rank = config.q_lora_rank
    asking = hidden * queries if rank is None else hidden * rank + rank + rank * queries
    unpacking = hidden * (latent + rope) + latent + latent * heads * (plain + values)
    return asking + unpacking + heads * values * hidden


def _mlp(config: ModelConfig) -> int:
    hidden, inner = _known(config.hidden_size), _known(config.intermediate_size)
    return 3 * hidden * inner + (2 * inner + hidden if config.mlp_bias else 0)


def _has_experts(config: ModelConfig, index: int) -> bool:
    if not config.experts or index in (config.mlp_only_layers or ()):
        return False
    if config.model_type == "qwen3_moe":
        return (index + 1) % (config.decoder_sparse_step or 1) == 0
    return index >= (config.first_k_dense_replace or 0) and index % (config.moe_layer_freq or 1) == 0


def _expert(config: ModelConfig, family: Family) -> int:
    hidden, inner = _known(config.hidden_size), _known(config.moe_intermediate_size or config.intermediate_size)
    return 3 * hidden * inner + (2 * inner + hidden if family.expert_bias else 0)


def _around_experts(config: ModelConfig, family: Family) -> int:
    """The router, and experts that every token uses."""
    experts = _known(config.experts)
    router = _known(config.hidden_size) * experts + (experts if family.expert_bias or family.router_bias else 0)
    return router + (config.n_shared_experts or 0) * _expert(config, family)


def _known(value: int | None) -> int:
    if not value:
        raise _Unknown
    return value
