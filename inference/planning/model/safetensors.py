"""What the files of a model's weights say of themselves. Pure: works on bytes that somebody else has read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

#: The length of a header, little endian, in front of it.
LENGTH_BYTES = 8

#: The format allows no longer header.
HEADER_MAX = 100_000_000

#: Types of which every number is a parameter; others hold several in one, or scales of quantised ones.
_BYTES_OF_FLOATS = {"F32": 4, "F16": 2, "BF16": 2}

_METADATA = "__metadata__"


class _Tensor(msgspec.Struct):
    dtype: str
    data_offsets: tuple[int, int]


def header_bytes(header: bytes) -> Counter[str]:
    """Bytes of the tensors that one file's header names, by data type.

    Raises:
        ValueError: it is no such header.
    """
    sizes: Counter[str] = Counter()
    try:
        for name, raw in msgspec.json.decode(header, type=dict[str, msgspec.Raw]).items():
            if name != _METADATA:
                tensor = msgspec.json.decode(raw, type=_Tensor)
                start, end = tensor.data_offsets
                sizes[tensor.dtype[:16]] += max(0, end - start)
    except msgspec.MsgspecError as error:
        raise ValueError(f"a header of weights can't be read: {error}") from error
    return sizes


def shard_names(index: bytes) -> list[str]:
    """The files that an index of weights names.

    Raises:
        ValueError: it is no index.
    """

    class Index(msgspec.Struct):
        weight_map: dict[str, str]

    try:
        names = sorted(set(msgspec.json.decode(index, type=Index).weight_map.values()))
    except msgspec.MsgspecError as error:
        raise ValueError(f"an index of weights can't be read: {error}") from error
    if any("/" in name or name in ("", ".", "..") for name in names):
        raise ValueError("an index of weights names files outside of its directory")
    return names


def floats(sizes: Iterable[tuple[str, int]]) -> int | None:
    """How many numbers there are; None where some type may hold something else."""
    total = 0
    for dtype, size in sizes:
        if dtype not in _BYTES_OF_FLOATS:
            return None
        total += size // _BYTES_OF_FLOATS[dtype]
    return total
