"""Which tokens one request has met, and how often its answer has: what penalties are computed from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_FIRST_ROOM = 64


class Tally:
    """Distinct tokens with their counts in the answer, kept as arrays that a step can use as they are.

    prompt: tokens that count as met before the answer begins.
    """

    def __init__(self, prompt: Sequence[int] = ()) -> None:
        met = np.unique(np.asarray(prompt, dtype=np.int64))
        self._ids = np.concatenate([met, np.zeros(_FIRST_ROOM, dtype=np.int64)])
        self._counts = np.zeros(len(self._ids), dtype=np.float32)
        self._places = {token: place for place, token in enumerate(met.tolist())}

    @property
    def ids(self) -> np.ndarray:
        """The tokens met, int64."""
        return self._ids[: len(self._places)]

    @property
    def counts(self) -> np.ndarray:
        """How often each of `ids` stands in the answer, float32."""
        return self._counts[: len(self._places)]

    def add(self, token_id: int) -> None:
        """One more token of the answer."""
        place = self._places.setdefault(token_id, len(self._places))
        if place == len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._ids[place] = token_id
        self._counts[place] += 1
