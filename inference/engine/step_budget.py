"""How much of a prompt a step may read beside running answers, so that their tokens keep coming in time.

A step with answers and `n` prompt tokens takes about `base + n * per_token` seconds. Both are learned from the steps
themselves. Where the guess of `base` is old, since every step of late read prompts too, what it lacks is counted into
`per_token`: the next step is then shorter, and steps settle at the target all the same.
"""

from __future__ import annotations

#: Weight of the newest step in what is learned.
_NEWEST = 0.3

#: Prompt tokens that every step reads whatever the target says, so that answers can't starve prompts.
LEAST_TOKENS = 16

_SHORTEST_S = 1e-7


class StepBudget:
    """target_s: seconds that a step with running answers shall take at most."""

    def __init__(self, target_s: float) -> None:
        self._target_s = target_s
        self._base_s: float | None = None
        self._per_token_s: float | None = None

    def tokens(self) -> int:
        """Prompt tokens for the next step with running answers."""
        if self._per_token_s is None:
            return LEAST_TOKENS
        return max(LEAST_TOKENS, int((self._target_s - (self._base_s or 0.0)) / self._per_token_s))

    def measured(self, answers: int, prompt_tokens: int, seconds: float) -> None:
        """A step with so many answers and prompt tokens took `seconds`."""
        if not prompt_tokens:
            self._base_s = _blend(self._base_s, seconds)
            return
        base_s = self._base_s or 0.0 if answers else 0.0
        self._per_token_s = _blend(self._per_token_s, max((seconds - base_s) / prompt_tokens, _SHORTEST_S))


def _blend(known: float | None, newest: float) -> float:
    return newest if known is None else known + _NEWEST * (newest - known)
