"""A model's configuration and the sizes of its files -> its shape. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from inference.contracts.models import ModelShape
from inference.planning.model.config import config_read
from inference.planning.model.engines import engines_against
from inference.planning.model.kv import kv_layers
from inference.planning.model.parameters import parameters, tied_parameters
from inference.planning.model.safetensors import floats

_ARCHITECTURE_MAX = 100


def model_shape(config: object, weights_bytes: Mapping[str, int] | None = None) -> ModelShape:
    """config: config.json, decoded. weights_bytes: of the files by data type; None: not known.

    Raises:
        NotUnderstood: it is no configuration of a model. One of an unknown kind is: what can't be told is None then.
    """
    read = config_read(config)
    counted = parameters(read)
    quantised = read.quantization_config
    in_files = floats(weights_bytes.items()) if weights_bytes and quantised is None else None
    return ModelShape(
        architecture=read.model_type[:_ARCHITECTURE_MAX],
        context_length=read.max_position_embeddings or None,
        parameters=in_files or (None if counted is None else counted.total),
        active_parameters=None if counted is None else counted.active,
        tied_parameters=tied_parameters(read),
        dtype=(read.dtype or read.torch_dtype or "")[:32],
        quantization="" if quantised is None else str(quantised.get("quant_method") or "quantised")[:32],
        weights_bytes=dict(weights_bytes) if weights_bytes else None,
        kv=kv_layers(read),
        engines=engines_against(read),
    )
