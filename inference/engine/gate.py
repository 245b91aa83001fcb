"""Which models this engine can compute rightly. Every other one is refused with a reason when it is loaded.

A wrong answer without any error is the worst that can happen here, so there are three gates: what the configuration
says, what K and V the model really makes, and a comparison with the model's own attention (`self_check`).
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine.attention.seam import attention_step
from inference.engine.kv_cache import KVGeometry

_PLAIN_LAYERS = {"full_attention", "sliding_attention"}
_BATCH_DEPENDENT_ROPE = {"dynamic", "longrope"}


def refuse(reason: str) -> TandemError:
    return TandemError(ErrorCode.INVALID_REQUEST, f"the native engine can't run this model: {reason}", "model_path")


def check_config(config: Any, model_class: Any) -> None:
    """Refuse what `config` and the class that would be built from it tell already, before weights are loaded.

    Raises:
        TandemError(INVALID_REQUEST): with the reason.
    """
    for reason, applies in (
        ("it is an encoder-decoder", config.is_encoder_decoder),
        ("it takes more than text (it has sub-models)", _has_sub_models(config)),
        ("its weights are quantised", getattr(config, "quantization_config", None) is not None),
        ("it keeps a state instead of, or besides, keys and values", getattr(model_class, "_is_stateful", False)),
        ("it compresses keys and values (MLA)", getattr(config, "kv_lora_rank", None) is not None),
        ("its layers share keys and values", bool(getattr(config, "num_kv_shared_layers", None))),
        ("it caps attention scores", getattr(config, "attn_logit_softcapping", None) is not None),
        ("its attention looks ahead", bool(getattr(config, "use_bidirectional_attention", False))),
        (
            "its attention can't be replaced (no `_supports_attention_backend`)",
            not getattr(model_class, "_supports_attention_backend", False),
        ),
        (
            "it can't compute logits of chosen tokens only (no `logits_to_keep`)",
            "logits_to_keep" not in inspect.signature(model_class.forward).parameters,
        ),
    ):
        if applies:
            raise refuse(reason)
    if strange := set(getattr(config, "layer_types", None) or ()) - _PLAIN_LAYERS:
        raise refuse(f"it has layers of kind {', '.join(sorted(strange))}")
    if ropes := _rope_types(config) & _BATCH_DEPENDENT_ROPE:
        raise refuse(f"its rotary embedding ({', '.join(sorted(ropes))}) depends on other requests in the batch")


def probe_geometry(model: Any, device: torch.device) -> KVGeometry:
    """Run one token through `model` and see what K and V each layer makes. Use within inference mode.

    Raises:
        TandemError(INVALID_REQUEST): the model wants to be called otherwise, has attention sinks, or makes K and V
            that do not fit one arena.
    """
    if any("sink" in name for name, _ in model.named_parameters()):
        raise refuse("it has attention sinks")
    probe = _GeometryProbe()
    token = torch.zeros(1, 1, dtype=torch.long, device=device)
    try:
        with attention_step(probe):
            model(input_ids=token, position_ids=token, use_cache=False)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise refuse(f"a trial run failed with {error!r}") from error
    layers = [layer for layer, _, _ in probe.seen]
    if layers != list(range(model.config.num_hidden_layers)):
        raise refuse(f"its {model.config.num_hidden_layers} layers call attention in the order {layers}")
    shapes = {shape for _, keys, values in probe.seen for shape in (keys, values)}
    if len(shapes) != 1:
        raise refuse(f"keys and values differ in shape: {', '.join(str(tuple(shape)) for shape in sorted(shapes))}")
    ((_, kv_heads, _, head_size),) = shapes
    windows = tuple(probe.windows) if any(probe.windows) else ()
    return KVGeometry(layers=len(layers), kv_heads=kv_heads, head_size=head_size, windows=windows)


class _GeometryProbe:
    """An `AttentionStep` that notes the shapes of K and V, and the window, of each layer."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, torch.Size, torch.Size]] = []
        self.windows: list[int | None] = []

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
        window: int | None,
    ) -> torch.Tensor:
        self.seen.append((layer, key.shape, value.shape))
        self.windows.append(window)
        return query.new_zeros(1, query.shape[2], query.shape[1], value.shape[3])


def _has_sub_models(config: Any) -> bool:
    try:
        return config.get_text_config() is not config
    except ValueError:  # it has several for text alone
        return True


def _rope_types(config: Any) -> set[str]:
    """Kinds of rotary embedding in `config`: one for all layers or one per layer type."""
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    return {entry.get("rope_type", "default") for entry in nested or [parameters]}
