"""What the choice of the next token of one answer depends on: its sampling, and the tokens so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inference.contracts.sampling import Sampling
from inference.engine.sampling.grammar import Follower
from inference.engine.sampling.tallies import Tally


class Chooser:
    """State of one answer. It follows from the prompt and the accepted tokens alone, so it never travels: whoever goes
    on with an answer accepts its tokens so far and stands where the other stood.

    answer: which of the request's answers. ends: tokens that end it. follower: of its grammar, at its beginning.
    """

    def __init__(
        self,
        sampling: Sampling,
        prompt: Sequence[int],
        *,
        answer: int = 0,
        ends: frozenset[int] = frozenset(),
        follower: Follower | None = None,
    ) -> None:
        self.sampling = sampling
        self.answer = answer
        self.follower = follower
        self.index = 0
        self.tally = _tally(sampling, prompt)
        self.bias = _bias(sampling)
        self._ends = np.array(sorted(ends), dtype=np.int64)

    def accept(self, token_id: int) -> None:
        """`token_id` is the next token of the answer."""
        self.index += 1
        if self.tally is not None:
            self.tally.add(token_id)
        if self.follower is not None:
            self.follower.accept(token_id)

    @property
    def banned(self) -> np.ndarray:
        """Tokens that may not come now, whatever their logits."""
        return self._ends if self.index < self.sampling.min_tokens else self._ends[:0]


def _tally(sampling: Sampling, prompt: Sequence[int]) -> Tally | None:
    if sampling.repetition_penalty != 1:
        return Tally(prompt)
    return Tally() if sampling.presence_penalty or sampling.frequency_penalty else None


def _bias(sampling: Sampling) -> tuple[np.ndarray, np.ndarray] | None:
    """Token ids and what is added to the logits of each."""
    if not sampling.logit_bias:
        return None
    ids = np.array(list(sampling.logit_bias), dtype=np.int64)
    return ids, np.array(list(sampling.logit_bias.values()), dtype=np.float32)
