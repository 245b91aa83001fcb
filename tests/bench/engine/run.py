"""What every section gets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers.pool import PeerPool


@dataclass(frozen=True)
class Run:
    """directory: for whatever a section leaves while it runs. quick: fewer samples, to see that all of it works."""

    model: Path
    peers: PeerPool
    directory: Path
    quick: bool = False

    def rounds(self, wanted: int) -> int:
        return 1 if self.quick else wanted
