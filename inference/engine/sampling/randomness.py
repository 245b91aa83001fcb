"""Random numbers without a state: each is a function of what it is for, whoever computes it, alone or in any batch.

Philox 4x32-10, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def uniforms(seeds: Sequence[int], indices: Sequence[int], answers: Sequence[int]) -> np.ndarray:
    """Numbers in [0, 1), one each for token `index` of answer `answer` to a request of `seed` (any integer)."""
    keys = np.array([seed % 2**64 for seed in seeds], dtype=np.uint64)
    counter = np.zeros((4, len(keys)), dtype=np.uint64)
    counter[0], counter[1] = indices, answers
    high, low, *_ = philox(counter, np.stack([keys & _LOW, keys >> _HALF]))
    bits = (high << _HALF | low) >> np.uint64(11)
    made: np.ndarray = bits.astype(np.float64) * 2.0**-53
    return made


def philox(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    """`counter` [4, n] and `key` [2, n], 32-bit words in uint64, to random words [4, n]."""
    one, two, three, four = counter
    first_key, second_key = key
    for _ in range(_ROUNDS):
        left, right = one * np.uint64(_MULTIPLIERS[0]), three * np.uint64(_MULTIPLIERS[1])
        one, two, three, four = (
            (right >> _HALF) ^ two ^ first_key,
            right & _LOW,
            (left >> _HALF) ^ four ^ second_key,
            left & _LOW,
        )
        first_key = (first_key + np.uint64(_WEYL[0])) & _LOW
        second_key = (second_key + np.uint64(_WEYL[1])) & _LOW
    return np.stack([one, two, three, four])
