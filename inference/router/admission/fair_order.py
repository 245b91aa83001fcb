"""In which order claims take their turns: the class of smaller number first, within a class keys by what they ask for.

Start-time fair queuing (Goyal, Vin, Cheng, SIGCOMM 1996) with a virtual time that passes as claims are called. A key
pays for a claim when it is called, and gets that back when the claim gives up: what was never served costs no turn.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """Who waits. key_id: of the serving key. rank: class; smaller goes first. tokens: what is asked for."""

    key_id: str
    rank: int = 0
    tokens: int = 1


@dataclass(slots=True, eq=False)
class Turn:
    """The place of one claim. arrived: virtual time when it came. number: as it came, among all. start: virtual time of
    its turn; None until it is called."""

    claim: Claim
    arrived: float
    number: int
    start: float | None = None


class FairOrder:
    """Of each key of a class the claim that came first is next; among these the one whose virtual start is least."""

    def __init__(self) -> None:
        self._time = 0.0
        self._ends: dict[str, float] = {}  # of what each key had
        self._lines: dict[tuple[int, str], list[Turn]] = {}
        self._numbers = 0

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def of_key(self, key_id: str) -> int:
        """How many claims of this key wait."""
        return sum(len(line) for (_, key), line in self._lines.items() if key == key_id)

    def come(self, claim: Claim) -> Turn:
        """A new claim; it is to `wait`."""
        self._numbers += 1
        return Turn(claim, self._time, self._numbers)

    def wait(self, turn: Turn) -> None:
        """Stand in line; again where it was called already and did not get what it wants."""
        line = self._lines.setdefault((turn.claim.rank, turn.claim.key_id), [])
        insort(line, turn, key=lambda each: each.number)

    def call(self) -> Turn | None:
        """Whose turn it is; it waits no longer. None: nobody waits."""
        if not self._lines:
            return None
        _, start, _, turn = min(self._next(line) for line in self._lines.values())
        self._step_out(turn)
        if turn.start is None:
            turn.start = start
            self._ends[turn.claim.key_id] = start + _cost(turn)
        self._time = max(self._time, start)
        wait = {key for _, key in self._lines}
        self._ends = {key: end for key, end in self._ends.items() if end > self._time or key in wait}
        return turn

    def give_up(self, turn: Turn) -> None:
        """It wants nothing any more, whether it waits or was called in vain."""
        self._step_out(turn)
        key_id = turn.claim.key_id
        if turn.start is not None and key_id in self._ends:
            self._ends[key_id] -= _cost(turn)
        turn.start = None

    def forget_all_but(self, keys: Collection[str]) -> None:
        """Let go of what all other keys had, but for those that wait."""
        kept = {key for _, key in self._lines}.union(keys)
        self._ends = {key: end for key, end in self._ends.items() if key in kept}

    def _next(self, line: list[Turn]) -> tuple[int, float, int, Turn]:
        turn = line[0]
        start = turn.start
        if start is None:
            start = max(turn.arrived, self._ends.get(turn.claim.key_id, 0.0))
        return turn.claim.rank, start, turn.number, turn

    def _step_out(self, turn: Turn) -> None:
        place = (turn.claim.rank, turn.claim.key_id)
        line = self._lines.get(place, [])
        if turn in line:
            line.remove(turn)
        if not line:
            self._lines.pop(place, None)


def _cost(turn: Turn) -> int:
    return max(1, turn.claim.tokens)
