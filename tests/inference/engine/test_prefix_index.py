from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.engine.prefix_index import PrefixIndex, PrefixKeys


def keys(tokens: list[int], *, fingerprint: str = "fp", salt: str = "", size: int = 2) -> list[bytes]:
    return PrefixKeys(fingerprint, salt, size).first(len(tokens) // size, tokens)


def test_a_key_covers_its_block_and_all_before_it() -> None:
    one, two = keys([1, 2, 3, 4]), keys([9, 2, 3, 4])
    assert one[0] != two[0]
    assert one[1] != two[1]
    assert keys([1, 2, 5, 6])[0] == one[0]


def test_another_model_or_salt_has_other_keys() -> None:
    assert not set(keys([1, 2])) & set(keys([1, 2], salt="tenant"))
    assert not set(keys([1, 2])) & set(keys([1, 2], fingerprint="other"))
    assert not set(keys([1, 2], fingerprint="a", salt="b")) & set(keys([1, 2], fingerprint="ab"))


def test_keys_grow_with_the_tokens_and_a_copy_grows_apart() -> None:
    growing = PrefixKeys("fp", "", 2)
    assert growing.first(1, [1, 2]) == keys([1, 2])
    twin = growing.copy()
    assert growing.first(2, [1, 2, 3, 4]) == keys([1, 2, 3, 4])
    assert twin.first(2, [1, 2, 5, 6]) == keys([1, 2, 5, 6])


def test_the_longest_known_beginning_is_found() -> None:
    index = PrefixIndex()
    chain = keys([1, 2, 3, 4, 5, 6])
    for block, key in enumerate(chain):
        index.add(key, 10 + block)
    assert index.find(chain) == [10, 11, 12]
    assert index.find(keys([1, 2, 3, 4, 9, 9])) == [10, 11]
    index.forget([11])
    assert index.find(chain) == [10]
    assert 12 in index
    assert 11 not in index


def test_the_first_block_of_a_key_stays_the_one_that_is_found() -> None:
    index = PrefixIndex()
    (key,) = keys([1, 2])
    index.add(key, 3)
    index.add(key, 4)
    assert index.find([key]) == [3]
    assert 4 not in index


def test_a_block_holds_what_it_was_added_for_last() -> None:
    index = PrefixIndex()
    old, new = keys([1, 2]), keys([3, 4])
    index.add(old[0], 7)
    index.add(new[0], 7)
    assert index.find(old) == []
    assert index.find(new) == [7]
    assert len(index) == 1


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_as_many_keys_are_equal_as_blocks_from_the_start_on(one: list[int], two: list[int]) -> None:
    same = 0
    while same < min(len(one), len(two)) // 2 and one[: 2 * same + 2] == two[: 2 * same + 2]:
        same += 1
    pairs = list(zip(keys(one), keys(two), strict=False))
    assert [a == b for a, b in pairs] == [True] * same + [False] * (len(pairs) - same)
