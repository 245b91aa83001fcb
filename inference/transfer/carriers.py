"""How the KV of one frame travels: within the frame, or left where it lies, for the receiver to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.contracts.states import KVTransport
from inference.engine.interface import KVHandle
from inference.transfer import wire
from inference.transfer.base import KVSource
from inference.transfer.narrow import narrowed
from inference.transfer.places import Slice, slices


@dataclass(frozen=True, slots=True)
class Load:
    """What a frame says of its KV, and brings of it. slot: see `wire.Data`. bytes: of the KV, wherever it is."""

    checksum: int
    slot: int | None
    payload: Sequence[memoryview]
    bytes: int


class Carrier(Protocol):
    """What one connection was agreed to do. wire_dtype: see `wire.Open`."""

    transport: KVTransport
    wire_dtype: str

    def cut(self, handle: KVHandle, wanted: Sequence[range], layers: range, start: int, end: int) -> Iterator[Slice]:
        """What is `wanted` of tokens [start, end) of `layers`, frame by frame."""

    def load(self, handle: KVHandle, piece: Slice, seed: int) -> Load: ...


class InFrames:
    """A `Carrier`: KV is the payload, sent from where the engine has it."""

    transport = KVTransport.TCP

    def __init__(self, engine: KVSource, frame_bytes: int, wire_dtype: str = "") -> None:
        self._engine = engine
        self._frame_bytes = frame_bytes
        self.wire_dtype = wire_dtype

    def cut(self, handle: KVHandle, wanted: Sequence[range], layers: range, start: int, end: int) -> Iterator[Slice]:
        return slices(wanted, layers, start, end, layer_token_bytes(self._engine), self._frame_bytes)

    def load(self, handle: KVHandle, piece: Slice, seed: int) -> Load:
        payload = self._engine.export_kv(handle, piece.layers, piece.start, piece.end)
        if self.wire_dtype:
            payload = narrowed(payload)
        return Load(wire.checksum(payload, seed), None, payload, sum(part.nbytes for part in payload))


class InPlace:
    """A `Carrier`: frames only say where the receiver is to read, one run of slots each."""

    wire_dtype = ""

    def __init__(self, engine: KVSource, frame_bytes: int, transport: KVTransport) -> None:
        self._engine = engine
        self._frame_bytes = frame_bytes
        self.transport = transport

    def cut(self, handle: KVHandle, wanted: Sequence[range], layers: range, start: int, end: int) -> Iterator[Slice]:
        for _, count in self._engine.kv_spans(handle, start, end):
            yield from slices(wanted, layers, start, start + count, layer_token_bytes(self._engine), self._frame_bytes)
            start += count

    def load(self, handle: KVHandle, piece: Slice, seed: int) -> Load:
        ((slot, _),) = self._engine.kv_spans(handle, piece.start, piece.end)
        rows = self._engine.export_kv(handle, piece.layers, piece.start, piece.end)
        return Load(wire.checksum(rows, seed), slot, (), sum(row.nbytes for row in rows))


def layer_token_bytes(engine: KVSource) -> int:
    """K and V of one token in one layer."""
    return engine.info.kv_bytes_per_token // engine.info.layers
