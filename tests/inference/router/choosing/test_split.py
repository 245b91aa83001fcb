"""Whether the answering worker reads the prompt itself."""

from __future__ import annotations

import pytest

from inference.contracts.states import PrefillPath, Role
from inference.router.choosing.split import decide_split, local_threshold
from inference.router.choosing.standing import Standing
from tests.inference.router.choosing.crew import D1, paced, worker


def test_few_uncached_tokens_are_read_by_the_decode_worker_itself() -> None:
    assert decide_split(D1, 16, 16) is PrefillPath.LOCAL
    assert decide_split(D1, 17, 16) is PrefillPath.HANDOFF
    assert decide_split(worker("u", Role.UNIFIED), 9999, 16) is PrefillPath.LOCAL


def test_a_long_prompt_is_read_locally_where_that_is_clearly_sooner_and_disturbs_nobody() -> None:
    def split(here: Standing, elsewhere: Standing | None, threshold: int = 64) -> PrefillPath:
        return decide_split(D1, 1000, threshold, here, elsewhere, 1000)

    idle = paced(Standing(answers=1), reading=0.001)
    crowded, waiting = (paced(Standing(backlog_tokens=tokens), reading=0.001) for tokens in (4000, 200))
    assert split(idle, crowded) is PrefillPath.LOCAL
    assert split(idle, waiting) is PrefillPath.HANDOFF
    writing = paced(Standing(answers=3), reading=0.001)
    assert split(writing, crowded) is PrefillPath.HANDOFF
    assert split(Standing(answers=1), crowded) is PrefillPath.HANDOFF
    assert split(idle, Standing(backlog_tokens=4000)) is PrefillPath.HANDOFF
    assert split(idle, paced(Standing(), reading=0.1)) is PrefillPath.HANDOFF, "a slow worker is no crowded one"
    assert split(idle, None) is PrefillPath.HANDOFF
    assert split(idle, crowded, 0) is PrefillPath.HANDOFF, "0 means: always hand over"


def test_the_automatic_threshold_is_what_fits_beside_a_step_within_the_promise() -> None:
    """(50 ms - 30 ms) / 0.1 ms a token = 200 tokens."""
    running = paced(Standing(answers=3), reading=0.0001, writing=0.030)
    assert local_threshold(64, automatic=True, here=running, itl_target_s=0.050) == pytest.approx(200, abs=1)
    idle = paced(Standing(answers=1), reading=0.0001, writing=0.030)
    assert local_threshold(64, automatic=True, here=idle, itl_target_s=0.050) == pytest.approx(500, abs=1)
    slow = paced(Standing(answers=3), reading=0.0001, writing=0.060)
    assert local_threshold(64, automatic=True, here=slow, itl_target_s=0.050) == 0


def test_the_fixed_threshold_holds_while_something_is_unknown() -> None:
    known = paced(Standing(), reading=0.0001, writing=0.030)
    assert local_threshold(64, automatic=False, here=known, itl_target_s=0.05) == 64
    assert local_threshold(64, automatic=True, here=known, itl_target_s=None) == 64
    assert local_threshold(64, automatic=True, here=Standing(), itl_target_s=0.05) == 64
