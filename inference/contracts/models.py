"""What a model is made of, as far as serving it depends on that: read from its own files, or told by an operator."""

from __future__ import annotations

import msgspec


class KvLayers(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that keep alike amounts of KV.

    heads: split over the devices of a tensor-parallel worker; with fewer heads than devices, some hold the same one.
    head_elements: numbers that are kept per token and head, keys and values together (of a compressed cache, MLA: its
    latent vector, with 1 head). window: the most tokens of one request that are kept; None: all of them.
    """

    layers: int
    heads: int
    head_elements: int
    window: int | None = None


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """None is "not known", never zero.

    architecture: `model_type` of its config.json. context_length: longest prompt + answer in tokens.
    parameters: all of them, a tied embedding once; active_parameters: without the experts that a token does not use;
    tied_parameters: of an embedding that is the output layer as well, 0 where it is not.
    dtype: that its weights are stored in, as its config.json says. quantization: how they are quantised; empty: not.
    weights_bytes: of its files, by data type as safetensors name it ("BF16").
    kv: of all layers; layers that keep none are left out.
    engines: kind of engine -> why it can't serve this model; empty: nothing is known against it.
    """

    architecture: str = ""
    context_length: int | None = None
    parameters: int | None = None
    active_parameters: int | None = None
    tied_parameters: int | None = None
    dtype: str = ""
    quantization: str = ""
    weights_bytes: dict[str, int] | None = None
    kv: tuple[KvLayers, ...] | None = None
    engines: dict[str, str] | None = None
