"""Peers are asked in turns, forwards and backwards, and each question is asked with new prompts."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.bench.peers.pool import PeerPool
from tests.bench.peers.process import PeerFailed, PeerSpec

#: A dtype that was slower than the other by this factor in the first round is not asked again.
_HOPELESS = 1.25

_seeds = itertools.count(1)


@dataclass
class Turns:
    """What each peer measured; seconds."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, *peers: PeerSpec) -> float | None:
        """Of the fastest of these peers; None when none of them answered."""
        medians = [statistics.median(self.samples[peer.name]) for peer in peers if self.samples.get(peer.name)]
        return min(medians) if medians else None

    def why_not(self, *peers: PeerSpec) -> str:
        said = [self.failures[peer.name].splitlines()[0] for peer in peers if peer.name in self.failures]
        return "; ".join(said) or "was not asked"

    def details(self, *peers: PeerSpec) -> dict[str, Any]:
        return {peer.name: self.samples.get(peer.name) or self.failures.get(peer.name) for peer in peers}


def take_turns(
    pool: PeerPool,
    rounds: Mapping[PeerSpec, int],
    question: Mapping[str, Any],
    siblings: Sequence[Sequence[PeerSpec]] = (),
    kept: Collection[PeerSpec] = (),
) -> Turns:
    """rounds: so often each peer is asked. siblings: of these groups only the fastest counts in the end, but
    those that are `kept` are wanted anyway."""
    turns = Turns()
    for number in range(max(rounds.values())):
        asked = [peer for peer, times in rounds.items() if number < times and peer.name not in turns.failures]
        if number:
            out = {peer for group in siblings for peer in hopeless(turns, group)}.difference(kept)
            asked = [peer for peer in asked if peer not in out]
        for peer in asked if number % 2 == 0 else reversed(asked):
            try:
                seconds = pool.ask(peer, {**question, "seed": next(_seeds)})
            except PeerFailed as error:
                turns.failures[peer.name] = str(error)
            else:
                turns.samples.setdefault(peer.name, []).append(seconds)
    return turns


def hopeless(turns: Turns, group: Sequence[PeerSpec]) -> list[PeerSpec]:
    """Peers of a group that can't be its fastest."""
    best = turns.median(*group)
    if best is None:
        return []
    return [peer for peer in group if (own := turns.median(peer)) is not None and own > best * _HOPELESS]
