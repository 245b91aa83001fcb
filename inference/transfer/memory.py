"""KV that a receiver reads where the sender's engine wrote it, because both run on one machine.

The arena of a CPU engine is a file in memory. A sender names it; a receiver opens it by way of the sender's process,
which the kernel allows to the same user only, sees by its inode that it is the one meant, and maps it for reading.
Nothing has a name in a file system, so nothing is left behind when either is killed. The file is sealed against
shrinking: a receiver that reads beyond the end of a mapped file would be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import mmap
import os
from pathlib import Path
from typing import Protocol

import numpy as np

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.states import KVTransport
from inference.engine.interface import EngineInfo, KVMemory
from inference.transfer import wire

Shape = tuple[int, int, int, int, int]

_POPULATE_READ = 22  # MADV_POPULATE_READ, which Python's mmap does not name yet
_POPULATED_BYTES = 2 * 2**30


class PeerMemory(Protocol):
    """The KV arena of a sender, as its receiver sees it."""

    @property
    def transport(self) -> KVTransport: ...

    @property
    def piece_bytes(self) -> int:
        """So much is best read at once."""

    async def read(self, layers: range, slot: int, tokens: int) -> np.ndarray:
        """uint8 [layers, K|V, heads, tokens, bytes]; valid until the next call.

        Raises:
            TandemError(TRANSFER_FAILED): it can't be read, or is not all there.
        """

    def close(self) -> None: ...


class NotReachable(Exception):
    """Why a receiver can't read what a sender offered; one sentence."""


def machine() -> str:
    """Names this start of this machine; empty where the system does not say."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def offer_of(memory: KVMemory) -> wire.Offer:
    status = os.fstat(memory.fd)
    return wire.Offer(
        transport=KVTransport.SHARED_MEMORY,
        shape=memory.shape,
        pid=os.getpid(),
        fd=memory.fd,
        device=status.st_dev,
        inode=status.st_ino,
    )


def check_shape(shape: Shape, info: EngineInfo) -> None:
    """
    Raises:
        NotReachable: memory of that shape is not that of an engine like the receiver's.
    """
    layers, pair, heads, _, size = shape
    if min(shape) < 1 or (layers, pair) != (info.layers, 2) or layers * pair * heads * size != info.kv_bytes_per_token:
        raise NotReachable(
            f"KV of shape {shape} is not of {info.layers} layers and {info.kv_bytes_per_token} bytes a token"
        )


class MappedMemory:
    """See `PeerMemory`; by mapping the sender's file."""

    transport = KVTransport.SHARED_MEMORY
    piece_bytes = 4 * 1024 * 1024  # no event loop should wait longer than for that

    def __init__(self, mapping: mmap.mmap, shape: Shape) -> None:
        self._arena: np.ndarray | None = np.frombuffer(mapping, np.uint8, count=int(np.prod(shape))).reshape(shape)

    async def read(self, layers: range, slot: int, tokens: int) -> np.ndarray:
        if self._arena is None:
            raise RuntimeError("the mapping is closed")
        return view(self._arena, layers, slot, tokens)

    def close(self) -> None:
        self._arena = None  # and with its last view goes the mapping


async def map_memory(offer: wire.Offer, info: EngineInfo) -> MappedMemory:
    """Map what a sender on this machine offers.

    Raises:
        NotReachable: with the reason.
    """
    check_shape(offer.shape, info)
    try:
        file = os.open(f"/proc/{offer.pid}/fd/{offer.fd}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NotReachable(f"process {offer.pid} of the sender can't be seen from here: {error.strerror}") from error
    try:
        status = os.fstat(file)
        if (status.st_dev, status.st_ino) != (offer.device, offer.inode):
            raise NotReachable(f"process {offer.pid} here is not the sender's")
        if status.st_size < int(np.prod(offer.shape)) or not fcntl.fcntl(file, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            raise NotReachable("the sender's memory is smaller than it says, or may shrink")
        mapping = mmap.mmap(file, status.st_size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    except OSError as error:
        raise NotReachable(f"the sender's memory can't be mapped: {error.strerror}") from error
    finally:
        os.close(file)
    if status.st_size <= _POPULATED_BYTES:
        with contextlib.suppress(OSError, ValueError):  # an older kernel; pages are then found one by one
            await asyncio.to_thread(mapping.madvise, _POPULATE_READ)
    return MappedMemory(mapping, offer.shape)


def view(arena: np.ndarray, layers: range, slot: int, tokens: int) -> np.ndarray:
    """The part of `arena` that holds `tokens` tokens from `slot` on.

    Raises:
        TandemError(TRANSFER_FAILED): it has no such part.
    """
    inside = 0 <= layers.start < layers.stop <= arena.shape[0] and 0 <= slot < slot + tokens <= arena.shape[3]
    if not inside:
        raise TandemError(
            ErrorCode.TRANSFER_FAILED,
            f"slots [{slot}, {slot + tokens}) of {layers} are outside of the sender's memory",
        )
    part: np.ndarray = arena[layers.start : layers.stop, :, :, slot : slot + tokens]
    return part
