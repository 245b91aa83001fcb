from __future__ import annotations

import numpy as np

from inference.engine.sampling.randomness import philox, uniforms


def words(counter: list[int], key: list[int]) -> list[int]:
    columns = [np.array(part, dtype=np.uint64)[:, None] for part in (counter, key)]
    return philox(*columns)[:, 0].tolist()


def test_the_generator_gives_the_published_words() -> None:
    """Known answers of Random123, the authors' own library."""
    most = 0xFFFFFFFF
    assert words([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert words([most] * 4, [most] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    assert words(pi, [0xA4093822, 0x299F31D0]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def test_a_number_depends_on_seed_index_and_answer_alone() -> None:
    seeds, indices, answers = [5, 7, 5, 5], [0, 0, 1, 0], [0, 0, 0, 1]
    together = uniforms(seeds, indices, answers)
    alone = [uniforms([seeds[i]], [indices[i]], [answers[i]])[0] for i in range(4)]
    assert together.tolist() == alone
    assert len(set(alone)) == 4


def test_any_integer_is_a_seed_and_no_two_share_their_numbers() -> None:
    made = {float(uniforms([seed], [index], [0])[0]) for seed in (0, 1, -1, 2**63, 2**64 - 2) for index in range(20)}
    assert len(made) == 100


def test_numbers_fill_the_unit_interval_evenly() -> None:
    made = uniforms([3] * 10_000, range(10_000), [0] * 10_000)
    assert (made >= 0).all()
    assert (made < 1).all()
    counts, _ = np.histogram(made, bins=10, range=(0, 1))
    assert (abs(counts - 1000) < 150).all()
