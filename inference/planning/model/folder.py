"""Reads the shape of a model from its directory: a few kilobytes of each file, never the weights.

The one place of planning that touches a disk, since node agents and the control plane read the same files alike.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from inference.contracts.models import ModelShape
from inference.planning.model.config import NotUnderstood
from inference.planning.model.safetensors import HEADER_MAX, LENGTH_BYTES, header_bytes, shard_names
from inference.planning.model.shape import model_shape

CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"

_CONFIG_MAX = 2**20
_INDEX_MAX = 2**26


def read_shape(folder: Path) -> ModelShape | None:
    """None where there is no model here whose configuration can be read. Sizes of weights that can't be read are not
    known."""
    try:
        config = msgspec.json.decode(_read(folder / CONFIG, _CONFIG_MAX))
        return model_shape(config, _weights_bytes(folder))
    except (OSError, ValueError, RuntimeError, msgspec.MsgspecError, NotUnderstood):
        return None


def _weights_bytes(folder: Path) -> Counter[str] | None:
    """By data type, of the files that an engine loads; None where one is missing or damaged."""
    try:
        sizes: Counter[str] = Counter()
        for file in _files(folder):
            sizes += header_bytes(_header(file))
        return sizes or None
    except (OSError, ValueError):
        return None


def _files(folder: Path) -> list[Path]:
    if (folder / _INDEX).is_file():
        return [folder / name for name in shard_names(_read(folder / _INDEX, _INDEX_MAX))]
    if (folder / _SINGLE).is_file():
        return [folder / _SINGLE]
    return sorted(folder.glob("*.safetensors"))


def _header(file: Path) -> bytes:
    """
    Raises:
        ValueError: the file does not begin with a header.
    """
    _require_plain(file)
    with file.open("rb") as content:
        length = int.from_bytes(content.read(LENGTH_BYTES), "little")
        if not 2 <= length <= HEADER_MAX:
            raise ValueError(f"{file} does not begin with a header")
        return content.read(length)


def _read(file: Path, limit: int) -> bytes:
    """
    Raises:
        ValueError: it is no plain file, or longer than `limit` bytes.
    """
    _require_plain(file)
    with file.open("rb") as content:
        found = content.read(limit + 1)
    if len(found) > limit:
        raise ValueError(f"{file} has more than {limit} bytes")
    return found


def _require_plain(file: Path) -> None:
    """A pipe or a device would be read for ever."""
    if not file.is_file():
        raise ValueError(f"{file} is no file")
