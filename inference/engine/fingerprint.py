"""One short string that tells whether two engines may exchange KV and answer with one voice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import xxhash

from inference.engine.kv_cache import KVGeometry

#: Raise the number when the meaning of bytes on the wire changes. L2HTD: layer, K|V, head, token, dim; after RoPE.
LAYOUT = "kv1-L2HTD"

#: What shapes K, V and their use, besides the weights.
_CONFIG_FIELDS = (
    "model_type",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "rope_parameters",
    "partial_rotary_factor",
    "sliding_window",
    "layer_types",
    "rms_norm_eps",
)

_READ_BYTES = 16 * 2**20


def fingerprint(
    config: Any, geometry: KVGeometry, dtype: str, block_size: int, eos_ids: frozenset[int], files_digest: str
) -> str:
    """Layout version and 128-bit digest (XXH3) over all that must be equal on both sides of a hand-off.

    eos_ids: both sides decide whether the first token ends the answer. files_digest: from `digest_files`.
    """
    facts = {name: getattr(config, name, None) for name in _CONFIG_FIELDS} | {
        "geometry": [geometry.layers, geometry.kv_heads, geometry.head_size],
        "dtype": dtype,
        "block_size": block_size,
        "eos_ids": sorted(eos_ids),
        "files": files_digest,
    }
    return f"{LAYOUT}-{xxhash.xxh3_128_hexdigest(json.dumps(facts, sort_keys=True, default=str).encode())}"


def digest_files(directory: Path) -> str:
    """Digest of the weights and of the vocabulary in `directory`; file names do not count, their order does."""
    digest = xxhash.xxh3_128()
    for path in [*sorted(directory.glob("*.safetensors")), *sorted(directory.glob("tokenizer.*"))]:
        with path.open("rb") as file:
            while data := file.read(_READ_BYTES):
                digest.update(data)
    return digest.hexdigest()
