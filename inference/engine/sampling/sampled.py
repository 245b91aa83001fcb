"""What the sampler tells of one token."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RawLogprob:
    """Natural logarithms of probabilities: of a chosen token, and of the likeliest at its place (id, logarithm)."""

    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Sampled:
    """A chosen token; logprob where it was asked for."""

    token_id: int
    logprob: RawLogprob | None = None
