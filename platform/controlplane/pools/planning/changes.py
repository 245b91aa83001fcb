"""What a plan says shall change. `apply` turns it into rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """A new worker on `devices`, which are all on one node, in the order of its tensor-parallel ranks."""

    pool_id: str
    devices: tuple[str, ...]
    reason: str
    revision: int = 1


@dataclass(frozen=True, slots=True)
class Flip:
    """A worker changes pools, and with it its role, on the devices that it has. It is wanted to run from then on, also
    if it was draining."""

    worker_id: str
    from_pool: str
    to_pool: str
    reason: str


@dataclass(frozen=True, slots=True)
class Move:
    worker_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unmet:
    """Something of a pool that is wanted and can't be done now."""

    pool_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """remove: gone, or on a node that was retired; their rows and devices are let go. wait: for what is under way
    (devices being freed, a replacement that serves). refused: nothing that is under way would make room."""

    start: tuple[Start, ...] = ()
    flip: tuple[Flip, ...] = ()
    undrain: tuple[Move, ...] = ()
    drain: tuple[Move, ...] = ()
    stop: tuple[Move, ...] = ()
    remove: tuple[Move, ...] = ()
    wait: tuple[Unmet, ...] = ()
    refused: tuple[Unmet, ...] = ()

    @property
    def acts(self) -> bool:
        """Whether applying it changes what shall run."""
        return bool(self.start or self.flip or self.undrain or self.drain or self.stop or self.remove)
