"""KV that a receiver reads from the sender's memory by NIXL, NVIDIA's transfer library: RDMA where there is a network
card for it, the kernel's copy between processes on one machine, else TCP. An optional extra (`nixl-cu12` and `nixl`).

The receiver reads into a buffer of its own and copies from there: so it decides when bytes move, and a read that comes
late or breaks off touches no block. A GPU engine's KV is not offered this way.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import secrets
import time
from typing import Any

import numpy as np

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.states import KVTransport
from inference.engine.interface import EngineInfo, KVMemory
from inference.transfer import wire
from inference.transfer.memory import NotReachable, check_shape

_READ_S = 10.0

#: Buffers that a read may still write to, after it was given up: they stay where they are.
_GIVEN_UP: list[object] = []


def _agent(*, progress_thread: bool) -> Any:
    """Raises `NotReachable` where NIXL is not installed or finds nothing to work with."""
    try:
        from nixl._api import nixl_agent, nixl_agent_config

        return nixl_agent(
            f"tandem-{secrets.token_hex(8)}",
            nixl_agent_config(enable_prog_thread=progress_thread, backends=["UCX"]),
        )
    except Exception as error:  # whatever a library says that is not there, or finds no network
        raise NotReachable(f"NIXL can't be used here: {error}") from error


class NixlExport:
    """The sender's side: its engine's KV, registered to be read.

    Raises:
        NotReachable: with the reason.
    """

    def __init__(self, memory: KVMemory) -> None:
        self._shape = memory.shape
        self._bytes = np.frombuffer(mmap.mmap(memory.fd, int(np.prod(memory.shape))), np.uint8)
        self._address = self._bytes.ctypes.data
        self._agent = _agent(progress_thread=True)
        try:
            region = (self._address, self._bytes.nbytes, 0, "")
            self._registered = self._agent.register_memory([region], "DRAM")
        except Exception as error:
            raise NotReachable(f"NIXL can't register this engine's KV: {error}") from error

    def offer(self) -> wire.Offer:
        return wire.Offer(
            transport=KVTransport.NIXL,
            shape=self._shape,
            address=self._address,
            agent=bytes(self._agent.get_agent_metadata()),
        )

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._agent.deregister_memory(self._registered)


class NixlImport:
    """See `PeerMemory`.

    Raises:
        NotReachable: with the reason.
    """

    transport = KVTransport.NIXL
    piece_bytes = 16 * 1024 * 1024

    def __init__(self, offer: wire.Offer, info: EngineInfo) -> None:
        check_shape(offer.shape, info)
        self._shape = offer.shape
        self._address = offer.address
        self._agent = _agent(progress_thread=False)
        self._buffer = np.empty(0, np.uint8)
        self._registered: Any = None
        try:
            self._peer = self._agent.add_remote_agent(offer.agent)
        except Exception as error:
            raise NotReachable(f"NIXL can't reach the sender: {error}") from error

    async def read(self, layers: range, slot: int, tokens: int) -> np.ndarray:
        _, pair, heads, slots, size = self._shape
        if not (0 <= layers.start < layers.stop <= self._shape[0] and 0 <= slot < slot + tokens <= slots):
            raise TandemError(ErrorCode.TRANSFER_FAILED, f"slots [{slot}, {slot + tokens}) are outside of its memory")
        rows = len(layers) * pair * heads
        self._make_room(rows * tokens * size)
        first_row = layers.start * pair * heads
        here = [(self._buffer.ctypes.data + row * tokens * size, tokens * size, 0) for row in range(rows)]
        there = [(self._address + ((first_row + row) * slots + slot) * size, tokens * size, 0) for row in range(rows)]
        await self._transfer(here, there)
        return self._buffer[: rows * tokens * size].reshape(len(layers), pair, heads, tokens, size)

    def _make_room(self, size: int) -> None:
        if len(self._buffer) < size:
            self._forget_buffer()
            self._buffer = np.empty(size, np.uint8)
            region = (self._buffer.ctypes.data, size, 0, "")
            self._registered = self._agent.register_memory([region], "DRAM")

    async def _transfer(self, here: list[tuple[int, int, int]], there: list[tuple[int, int, int]]) -> None:
        deadline = time.monotonic() + _READ_S
        handle = None
        state = "ERR"
        try:
            handle = self._agent.initialize_xfer(
                "READ",
                self._agent.get_xfer_descs(here, "DRAM"),
                self._agent.get_xfer_descs(there, "DRAM"),
                self._peer,
            )
            state = self._agent.transfer(handle)
            while state == "PROC" and time.monotonic() < deadline:
                await asyncio.sleep(0)
                state = self._agent.check_xfer_state(handle)
            if state != "DONE":
                raise TandemError(ErrorCode.TRANSFER_FAILED, f"a NIXL read ended as {state}")
        except TandemError:
            raise
        except Exception as error:
            raise TandemError(ErrorCode.TRANSFER_FAILED, f"NIXL: {error}") from error
        finally:
            if state != "DONE":
                _GIVEN_UP.append((self._buffer, handle))
            elif handle is not None:
                self._agent.release_xfer_handle(handle)

    def _forget_buffer(self) -> None:
        if self._registered is not None:
            self._agent.deregister_memory(self._registered)
            self._registered = None

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._forget_buffer()
            self._agent.remove_remote_agent(self._peer)
