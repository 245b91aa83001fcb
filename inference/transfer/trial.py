"""A payload that goes nowhere: what a receiver does with it is what it does with KV, but for writing it to blocks."""

from __future__ import annotations

import numpy as np

from inference.contracts.errors import ErrorCode, TandemError
from inference.transfer import wire
from inference.transfer.memory import PeerMemory


async def check_trial(header: wire.Trial, payload: memoryview, memory: PeerMemory | None, seed: int) -> None:
    """
    Raises:
        TandemError: CHECKSUM_MISMATCH when the bytes are not those that the sender had, TRANSFER_FAILED when they can't
            be read.
    """
    data = payload
    if header.slot is not None:
        if memory is None:
            raise TandemError(ErrorCode.TRANSFER_FAILED, "no memory was agreed on that KV could be read from")
        layers = range(header.first_layer, header.end_layer)
        data = np.ascontiguousarray(await memory.read(layers, header.slot, header.tokens)).data.cast("B")
    if wire.checksum([data], seed) != header.checksum:
        raise TandemError(ErrorCode.CHECKSUM_MISMATCH, "a trial payload was damaged on its way")
