"""Which engines can serve a model, as far as its configuration tells. Pure.

Each engine looks again when it loads the model, and more closely: this is to refuse early what it would refuse then.
"""

from __future__ import annotations

from inference.planning.model.config import ModelConfig
from inference.planning.model.families import FAMILIES

NATIVE = "native"

_PLAIN_LAYERS = frozenset({"full_attention", "sliding_attention"})
_BATCH_DEPENDENT_ROPE = frozenset({"dynamic", "longrope"})


def engines_against(config: ModelConfig) -> dict[str, str]:
    """Kind of engine -> why it can't serve this model; empty: nothing is known against it."""
    return {NATIVE: _native(config)}


def _native(config: ModelConfig) -> str:
    """The same reasons, in the same words, as the engine's own gate."""
    family = FAMILIES.get(config.model_type)
    for reason, applies in (
        ("it is an encoder-decoder", bool(config.is_encoder_decoder)),
        ("it takes more than text (it has sub-models)", config.has_submodels),
        ("its weights are quantised", config.quantization_config is not None),
        ("it compresses keys and values (MLA)", config.kv_lora_rank is not None),
        ("its layers share keys and values", bool(config.num_kv_shared_layers)),
        ("it caps attention scores", config.attn_logit_softcapping is not None),
        ("its attention looks ahead", bool(config.use_bidirectional_attention)),
        ("it has attention sinks", family is not None and family.sinks),
    ):
        if applies:
            return reason
    if strange := set(config.layer_types or ()) - _PLAIN_LAYERS:
        return f"it has layers of kind {', '.join(sorted(strange))}"
    if ropes := _rope_types(config) & _BATCH_DEPENDENT_ROPE:
        return f"its rotary embedding ({', '.join(sorted(ropes))}) depends on other requests in the batch"
    return ""


def _rope_types(config: ModelConfig) -> set[str]:
    """Kinds of rotary embedding, of all layers or by kind of layer; older files call them otherwise."""
    found = set()
    for given in (config.rope_scaling or {}, config.rope_parameters or {}):
        nested = [value for value in given.values() if isinstance(value, dict)]
        found |= {str(entry.get("rope_type") or entry.get("type") or "default") for entry in nested or [given]}
    return found
