from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine.block_manager import Extent
from inference.engine.interface import KVHandle
from inference.engine.reservations import CopySpan, Reservations, SlotMap


@pytest.fixture
def reservations() -> Reservations:
    return Reservations(8, block_size=4)


def test_capacity_is_rounded_up_to_whole_blocks(reservations: Reservations) -> None:
    assert reservations.reserve(5).capacity == 8
    assert reservations.used_blocks == 2


def test_more_than_is_free_now_is_kv_full(reservations: Reservations) -> None:
    reservations.reserve(20)
    with pytest.raises(TandemError) as caught:
        reservations.reserve(13)
    assert caught.value.code == ErrorCode.KV_FULL
    assert reservations.used_blocks == 5


def test_more_than_there_ever_is_exceeds_the_context(reservations: Reservations) -> None:
    with pytest.raises(TandemError) as caught:
        reservations.reserve(33)
    assert caught.value.code == ErrorCode.CONTEXT_LENGTH_EXCEEDED


def test_releasing_twice_frees_once(reservations: Reservations) -> None:
    handle = reservations.reserve(4)
    other = reservations.reserve(4)
    reservations.release(handle)
    reservations.release(handle)
    assert reservations.used_blocks == 1
    with reservations.pin(other):
        pass


def test_a_pinned_handle_keeps_its_blocks_until_the_last_pin_is_gone(reservations: Reservations) -> None:
    handle = reservations.reserve(4)
    with reservations.pin(handle):
        with reservations.pin(handle):
            reservations.release(handle)
            assert reservations.used_blocks == 1
        assert reservations.used_blocks == 1
    assert reservations.used_blocks == 0


def test_a_released_handle_can_not_be_pinned(reservations: Reservations) -> None:
    handle = reservations.reserve(4)
    reservations.release(handle)
    with pytest.raises(ValueError, match="not reserved"), reservations.pin(handle):
        pass


def test_tokens_beyond_the_reservation_have_no_slot() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        SlotMap((Extent(0, 1),), 4).spans(0, 5)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_spans_name_the_slots_of_tokens_in_order(lengths: list[int], data: st.DataObject) -> None:
    extents, start = [], 3
    for length in lengths:
        extents.append(Extent(start, length))
        start += length + 2
    every = [slot for extent in extents for slot in range(extent.start * 4, extent.end * 4)]
    begin = data.draw(st.integers(0, len(every)))
    end = data.draw(st.integers(begin, len(every)))
    slot_map = SlotMap(tuple(extents), 4)
    assert slot_map.slots(begin, end) == every[begin:end]
    assert all(length > 0 for _, length in slot_map.spans(begin, end))


# -- KV is shared ---------------------------------------------------------------------------------------


def read(reservations: Reservations, prompt: list[int], capacity: int | None = None, **how: object) -> KVHandle:
    """Reserve for `prompt` and pretend to have read it."""
    handle = reservations.reserve(capacity or len(prompt), prompt, **how)
    copied(reservations)
    reservations.offer(handle, prompt, len(prompt))
    return handle


def copied(reservations: Reservations) -> list[CopySpan]:
    with reservations.due_copies() as spans:
        return spans


PROMPT = list(range(10))


def test_what_one_request_has_read_is_there_for_the_next(reservations: Reservations) -> None:
    read(reservations, PROMPT)
    handle = reservations.reserve(10, PROMPT)
    assert handle.cached_tokens == 8
    assert reservations.cached(handle, PROMPT) == 8
    assert copied(reservations) == [CopySpan(source=0, target=12, length=8)]
    assert copied(reservations) == []


def test_it_is_there_after_its_first_owner_has_gone(reservations: Reservations) -> None:
    reservations.release(read(reservations, PROMPT))
    assert reservations.used_blocks == 0
    assert reservations.reserve(10, PROMPT).cached_tokens == 8


def test_the_last_token_of_a_prompt_is_always_computed(reservations: Reservations) -> None:
    reservations.release(read(reservations, PROMPT[:8]))
    assert reservations.reserve(8, PROMPT[:8]).cached_tokens == 4
    assert reservations.reserve(9, PROMPT[:9]).cached_tokens == 8


def test_only_what_is_computed_is_shared(reservations: Reservations) -> None:
    handle = reservations.reserve(12, PROMPT)
    assert reservations.reserve(4, PROMPT).cached_tokens == 0
    reservations.offer(handle, PROMPT, 7)
    assert reservations.reserve(4, PROMPT).cached_tokens == 4


def test_answers_are_shared_like_prompts(reservations: Reservations) -> None:
    handle = read(reservations, PROMPT[:6], capacity=12)
    reservations.offer(handle, PROMPT, 9)
    assert reservations.reserve(10, PROMPT).cached_tokens == 8


@pytest.mark.parametrize("how", [{"salt": "tenant"}, {"prompt": [*PROMPT[:3], 99, *PROMPT[4:]]}, {"prompt": []}])
def test_another_salt_another_beginning_or_no_prompt_shares_nothing(reservations: Reservations, how) -> None:
    read(reservations, PROMPT)
    assert reservations.reserve(10, **({"prompt": PROMPT} | how)).cached_tokens == 0


def test_sharing_can_be_turned_off() -> None:
    reservations = Reservations(8, 4, share=False)
    read(reservations, PROMPT)
    assert reservations.reserve(10, PROMPT).cached_tokens == 0


def test_a_handle_is_for_the_prompt_that_it_was_reserved_for(reservations: Reservations) -> None:
    read(reservations, PROMPT)
    handle = reservations.reserve(12, PROMPT)
    assert reservations.cached(handle, [*PROMPT, 5]) == 8
    with pytest.raises(ValueError, match="another prompt"):
        reservations.cached(handle, [7] * 10)


def test_remembered_kv_never_stands_in_the_way_of_a_request(reservations: Reservations) -> None:
    reservations.release(read(reservations, PROMPT))
    reservations.reserve(32)
    assert reservations.used_blocks == 8


def test_what_was_used_last_is_remembered_longest(reservations: Reservations) -> None:
    one, two = [1] * 13, [2] * 13
    for prompt in (one, two, one):
        reservations.release(read(reservations, prompt))
    reservations.release(reservations.reserve(20))
    assert reservations.reserve(4, one).cached_tokens == 12


def test_the_end_of_a_prompt_is_forgotten_before_its_beginning(reservations: Reservations) -> None:
    reservations.release(read(reservations, list(range(32))))
    reservations.release(reservations.reserve(8))
    assert reservations.reserve(4, list(range(32))).cached_tokens == 24


def test_a_request_that_needs_the_room_of_what_it_shares_shares_less(reservations: Reservations) -> None:
    reservations.release(read(reservations, list(range(24))))
    handle = reservations.reserve(20, list(range(20)))
    assert reservations.used_blocks <= 8
    spans = copied(reservations)
    assert sum(span.length for span in spans) == handle.cached_tokens < 16


def test_what_will_be_copied_is_kept_until_then(reservations: Reservations) -> None:
    reservations.release(read(reservations, PROMPT))
    reservations.reserve(10, PROMPT)
    assert reservations.used_blocks == 5
    with pytest.raises(TandemError, match="3 are free"):
        reservations.reserve(16)
    copied(reservations)
    assert reservations.used_blocks == 3


def test_a_handle_released_before_or_while_it_is_copied_into_leaves_nothing_behind(reservations: Reservations) -> None:
    reservations.release(read(reservations, PROMPT))
    before = reservations.reserve(10, PROMPT)
    reservations.release(before)
    assert reservations.used_blocks == 0
    assert copied(reservations) == []
    meanwhile = reservations.reserve(10, PROMPT)
    with reservations.due_copies() as spans:
        reservations.release(meanwhile)
        assert len(spans) == 1
        assert reservations.used_blocks == 5
    assert reservations.used_blocks == 0


def test_doubtful_kv_is_found_by_nobody(reservations: Reservations) -> None:
    handle = read(reservations, PROMPT)
    reservations.withdraw(handle)
    reservations.offer(handle, PROMPT, 10)
    reservations.release(handle)
    assert reservations.reserve(10, PROMPT).cached_tokens == 0


# -- several answers -------------------------------------------------------------------------------------


def test_several_answers_are_reserved_all_or_nothing(reservations: Reservations) -> None:
    handle = reservations.reserve(8, answers=3)
    assert (handle.capacity, reservations.used_blocks) == (8, 6)
    with pytest.raises(TandemError) as full:
        reservations.reserve(8, answers=2)
    assert full.value.code == ErrorCode.KV_FULL
    with pytest.raises(TandemError) as never:
        reservations.reserve(8, answers=5)
    assert never.value.code == ErrorCode.CONTEXT_LENGTH_EXCEEDED
    reservations.release(handle)
    assert reservations.used_blocks == 0


def test_each_answer_has_blocks_of_its_own(reservations: Reservations) -> None:
    handle = reservations.reserve(8, answers=2)
    with reservations.pin(handle) as one, reservations.pin(handle, 1) as two:
        assert not set(one.slots(0, 8)) & set(two.slots(0, 8))


def test_a_fork_copies_every_block_that_holds_the_prompt(reservations: Reservations) -> None:
    handle = reservations.reserve(12, PROMPT[:6], answers=2)
    reservations.offer(handle, PROMPT[:6], 6)
    reservations.fork(handle, 6, 1)
    assert copied(reservations) == [CopySpan(source=0, target=12, length=8)]


def test_a_fork_of_a_released_handle_is_nothing(reservations: Reservations) -> None:
    handle = reservations.reserve(8, answers=2)
    reservations.release(handle)
    reservations.fork(handle, 6, 1)
    assert copied(reservations) == []


def test_the_answers_of_one_prompt_are_remembered_apart() -> None:
    reservations = Reservations(32, 4)
    handle = reservations.reserve(12, PROMPT[:4], answers=2)
    reservations.offer(handle, PROMPT[:4], 4)
    reservations.fork(handle, 4, 1)
    copied(reservations)
    reservations.offer(handle, [*PROMPT[:4], 1, 1, 1, 1], 8)
    reservations.offer(handle, [*PROMPT[:4], 2, 2, 2, 2], 8, 1)
    reservations.release(handle)
    for answer in (1, 2):
        assert reservations.reserve(12, [*PROMPT[:4], *[answer] * 4, 0]).cached_tokens == 8


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 14), st.integers(0, 2), st.integers(1, 2)), max_size=40))
def test_no_block_is_lost_and_no_cached_token_is_another_requests(steps) -> None:
    """Whatever comes and goes: a model of the arena in which every slot holds the tokens before and at it."""
    reservations, arena = Reservations(10, 2), [()] * 20
    live: list[tuple[KVHandle, list[int]]] = []
    for act, length, kind, answers in steps:
        prompt = [kind] * (length // 2) + [kind + at % 2 for at in range(length - length // 2)]
        if act < 3:
            try:
                live.append((reservations.reserve(length, prompt, answers=answers), prompt))
            except TandemError:
                continue
        elif act == 3 and live:
            reservations.release(live.pop(length % len(live))[0])
        with reservations.due_copies() as spans:
            for span in spans:
                arena[span.target : span.target + span.length] = arena[span.source : span.source + span.length]
        if act in (4, 5) and live:
            handle, tokens = live[length % len(live)]
            with reservations.pin(handle) as slot_map:
                for at, slot in enumerate(slot_map.slots(0, len(tokens))):
                    beginning = tuple(tokens[: at + 1])
                    assert at >= handle.cached_tokens or arena[slot] == beginning
                    arena[slot] = beginning
            reservations.offer(handle, tokens, len(tokens))
    for handle, _ in live:
        reservations.release(handle)
    assert reservations.used_blocks == 0
