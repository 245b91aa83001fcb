"""What tests of whole engines ask."""

from __future__ import annotations

import random

from inference.contracts.sampling import Sampling
from tests.inference.engine.recorder import greedy

ANSWER = 24


def prompts(*lengths: int) -> list[list[int]]:
    draw = random.Random(4)
    return [[draw.randrange(256) for _ in range(length)] for length in lengths]


#: One token, around a block of 16, around the windows of 24 and 32, and beyond several of both.
PROMPTS = prompts(1, 2, 15, 16, 17, 24, 33, 70, 131)


def unending(max_tokens: int = ANSWER) -> Sampling:
    return greedy(max_tokens, ignore_eos=True)
