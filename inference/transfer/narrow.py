"""float32 KV as bfloat16 on the wire: half the bytes, and eight of its 24 significant bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inference.contracts.errors import ErrorCode, TandemError

BFLOAT16 = "bfloat16"


def check_wire_dtype(wire_dtype: str, kv_dtype: str) -> None:
    """
    Raises:
        TandemError(FINGERPRINT_MISMATCH): KV of `kv_dtype` can't travel as `wire_dtype`.
    """
    if wire_dtype and (wire_dtype, kv_dtype) != (BFLOAT16, "float32"):
        raise TandemError(
            ErrorCode.FINGERPRINT_MISMATCH,
            f"KV of {kv_dtype or 'unknown dtype'} can't travel as {wire_dtype!r}; only float32 can, as {BFLOAT16!r}",
        )


def narrowed(pieces: Sequence[memoryview]) -> list[memoryview]:
    """float32 bytes as bfloat16 bytes, rounded to the nearest, ties to even."""
    return [_narrow(np.frombuffer(piece, np.uint32)).data.cast("B") for piece in pieces]


def _narrow(bits: np.ndarray) -> np.ndarray:
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> 16) & 1))
    result: np.ndarray = (rounded >> 16).astype(np.uint16)
    broken = (bits & 0x7FFFFFFF) > 0x7F800000  # rounding could turn a NaN into an infinity
    if broken.any():
        result[broken] = 0x7FC0
    return result


def widened(payload: memoryview) -> memoryview:
    """bfloat16 bytes as float32 bytes."""
    return (np.frombuffer(payload, np.uint16).astype(np.uint32) << 16).data.cast("B")
