"""The account of what one key uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.router.admission.key_limits import Admission, KeyLimits, Quota, Rate, Refusal
from inference.router.admission.minute import WINDOW_S

NOW = 1_000.0


def quota(key_id: str = "k1", **limits: int | None) -> Quota:
    return Quota(key_id, **limits)


@contextmanager
def admitted(limits: KeyLimits, of: Quota, now: float, *, prompts: int = 1, tokens: int = 0) -> Iterator[Admission]:
    admission = limits.enter(of, prompts, tokens, now)
    assert isinstance(admission, Admission)
    try:
        yield admission
    finally:
        limits.leave(admission, now)


def refusal_of(limits: KeyLimits, of: Quota, now: float, *, prompts: int = 1, tokens: int = 0) -> Refusal:
    refusal = limits.enter(of, prompts, tokens, now)
    assert isinstance(refusal, Refusal)
    return refusal


def test_a_rate_is_of_any_minute_and_says_when_there_is_room() -> None:
    limits, of = KeyLimits(2), quota(requests_per_minute=2)
    for at in (NOW, NOW + 10):
        with admitted(limits, of, at):
            pass

    refusal = refusal_of(limits, of, NOW + 20)
    assert (refusal.status, refusal.code, refusal.retry_after_s) == (429, "rate_limit_exceeded", 40)
    with admitted(limits, of, NOW + WINDOW_S):
        pass
    assert refusal_of(limits, of, NOW + WINDOW_S).retry_after_s == 10


def test_a_limit_that_was_lowered_waits_for_as_many_as_are_too_many() -> None:
    limits = KeyLimits(2)
    for at in range(4):
        with admitted(limits, quota(requests_per_minute=4), NOW + at):
            pass

    assert refusal_of(limits, quota(requests_per_minute=2), NOW + 10).retry_after_s == 52


def test_what_is_refused_uses_up_nothing() -> None:
    limits, of = KeyLimits(2), quota(requests_per_minute=1, tokens_per_minute=10)
    for _ in range(20):
        with admitted(limits, of, NOW, tokens=8) as admission:
            admission.answered_nothing(refused=True)
    with admitted(limits, of, NOW, tokens=8):
        pass
    for _ in range(20):
        refusal_of(limits, of, NOW + 1, tokens=1)

    assert (limits.requests("k1"), limits.tokens("k1")) == (1, 8)
    with admitted(limits, of, NOW + WINDOW_S, tokens=10):
        pass


def test_what_fails_before_anything_is_answered_costs_a_request_and_no_tokens() -> None:
    limits, of = KeyLimits(2), quota(requests_per_minute=5, tokens_per_minute=10)
    with admitted(limits, of, NOW, tokens=8) as admission:
        admission.used(9, 3)
        admission.answered_nothing(refused=False)
    assert (limits.requests("k1"), limits.tokens("k1")) == (1, 0)


def test_requests_at_one_time_are_those_that_run() -> None:
    limits, of = KeyLimits(7), quota(max_concurrent=2)
    with ExitStack() as running:
        running.enter_context(admitted(limits, of, NOW))
        running.enter_context(admitted(limits, of, NOW))
        refusal = refusal_of(limits, of, NOW)
        assert (refusal.code, refusal.retry_after_s) == ("concurrency_limit_exceeded", 7)
        with admitted(limits, quota("another", max_concurrent=2), NOW):
            pass
    with admitted(limits, of, NOW):
        pass
    assert limits.live("k1") == 0


def test_who_leaves_twice_has_left_once() -> None:
    limits, of = KeyLimits(2), quota(max_concurrent=2, tokens_per_minute=100)
    with admitted(limits, of, NOW), admitted(limits, of, NOW, tokens=5) as again:
        again.used(5, 5)
        limits.leave(again, NOW)
        limits.leave(again, NOW)
        assert limits.live("k1") == 1
    assert (limits.live("k1"), limits.tokens("k1")) == (0, 10)


def test_the_prompt_is_presumed_and_put_right_and_the_answer_counts_when_it_ends() -> None:
    limits, of = KeyLimits(2), quota(tokens_per_minute=100)
    first = limits.enter(of, 1, 60, NOW)
    assert isinstance(first, Admission)
    refusal = refusal_of(limits, of, NOW + 1, tokens=50)
    assert (refusal.status, refusal.retry_after_s) == (429, 59)
    assert "100 tokens in a minute, 40 are left, and the prompt has about 50" in refusal.message

    first.used(50, 30)
    limits.leave(first, NOW + 20)
    assert limits.tokens("k1") == 80
    assert refusal_of(limits, of, NOW + 30, tokens=50).retry_after_s == 30, "when the prompt is a minute old"
    assert refusal_of(limits, of, NOW + 30, tokens=90).retry_after_s == 50, "when the answer is, too"


def test_answers_that_run_may_pass_the_limit_and_are_waited_for() -> None:
    limits, of = KeyLimits(2), quota(tokens_per_minute=100)
    with admitted(limits, of, NOW, tokens=10) as admission:
        admission.used(10, 500)
    assert limits.standing(of, NOW).tokens == Rate(100, 0, 60.0)
    assert refusal_of(limits, of, NOW + 15, tokens=1).retry_after_s == 45
    with admitted(limits, of, NOW + 15):
        pass  # asks for no tokens: /tokenize


@pytest.mark.parametrize(
    ("limit", "asked", "said"),
    [
        ({"tokens_per_minute": 100}, {"tokens": 101}, "101 tokens of prompt, by estimate; this API key may use 100"),
        ({"requests_per_minute": 3}, {"prompts": 4}, "4 prompts; this API key may send 3 requests in a minute"),
        ({"max_concurrent": 3}, {"prompts": 4}, "4 prompts; this API key may have 3 requests at one time"),
    ],
)
def test_what_could_never_be_let_in_is_no_matter_of_waiting(
    limit: dict[str, int], asked: dict[str, int], said: str
) -> None:
    refusal = refusal_of(KeyLimits(2), quota(**limit), NOW, **asked)
    assert (refusal.status, refusal.code, refusal.retry_after_s) == (400, "request_larger_than_limit", None)
    assert said in refusal.message


def test_of_several_prompts_all_are_let_in_or_none() -> None:
    limits, of = KeyLimits(2), quota(requests_per_minute=4, max_concurrent=4)
    with admitted(limits, of, NOW, prompts=3):
        assert limits.live("k1") == 3
        assert refusal_of(limits, of, NOW, prompts=2).code == "concurrency_limit_exceeded"
    assert refusal_of(limits, of, NOW + 5, prompts=2).retry_after_s == 55
    with admitted(limits, of, NOW):
        pass


def test_a_key_learns_how_it_stands() -> None:
    limits, of = KeyLimits(2), quota(requests_per_minute=3, tokens_per_minute=50)
    assert limits.standing(quota(), NOW).requests is limits.standing(quota(), NOW).tokens is None
    assert limits.standing(of, NOW).requests == Rate(limit=3, remaining=3, reset_s=0.0)
    for at in (NOW, NOW + 10):
        with admitted(limits, of, at, tokens=20):
            pass
    assert limits.standing(of, NOW + 20).requests == Rate(limit=3, remaining=1, reset_s=50.0)
    assert limits.standing(of, NOW + 20).tokens == Rate(limit=50, remaining=10, reset_s=50.0)
    assert limits.standing(quota(requests_per_minute=1), NOW + 20).requests == Rate(1, 0, 50.0)
    assert limits.standing(of, NOW + 75).requests == Rate(limit=3, remaining=3, reset_s=0.0)


def test_what_is_old_is_forgotten_also_of_keys_that_nobody_uses() -> None:
    limits = KeyLimits(2)
    with admitted(limits, quota(requests_per_minute=5, tokens_per_minute=5), NOW, tokens=5):
        pass
    limits.forget_old(NOW + WINDOW_S)

    assert not limits._accounts


@given(st.lists(st.tuples(st.integers(0, 30 * 8), st.booleans()), max_size=60), st.integers(1, 5))
def test_no_minute_ever_has_more_than_the_limit(steps: list[tuple[int, bool]], limit: int) -> None:
    """Pauses are in eighths of a second, which floats hold exactly and a minute tells apart."""
    limits, of, now, kept = KeyLimits(2), quota(requests_per_minute=limit), NOW, []
    for pause, refused in steps:
        now += pause / 8
        if sum(at > now - WINDOW_S for at in kept) == limit:
            wait = refusal_of(limits, of, now).retry_after_s
            assert wait is not None
            assert sum(at > now + wait - WINDOW_S for at in kept) < limit
            continue
        with admitted(limits, of, now) as admission:
            if refused:
                admission.answered_nothing(refused=True)
        if not refused:
            kept.append(now)


@dataclass
class Ended:
    """What one request has to cost: (when, tokens)."""

    admission: Admission
    came: float
    presumed: int
    costs: list[tuple[float, int]] = field(default_factory=list)


STEP = st.tuples(
    st.sampled_from(["come", "answered", "left early", "refused", "failed", "lost"]),
    st.integers(0, 25 * 8),
    st.integers(1, 60),
    st.integers(0, 60),
)


@given(st.lists(STEP, max_size=80))
def test_tokens_are_exact_whatever_ends_a_request(steps: list[tuple[str, int, int, int]]) -> None:
    """F17: against a model that adds up what every request had to cost, at every step; in the end nothing is held."""
    limit, now = 100, NOW
    limits, of = KeyLimits(2), quota(tokens_per_minute=limit, max_concurrent=4)
    live: list[Ended] = []
    ended: list[Ended] = []

    def spent(at: float) -> int:
        costs = [(one.came, one.presumed) for one in live] + [cost for one in ended for cost in one.costs]
        return sum(tokens for when, tokens in costs if when > at - WINDOW_S)

    for what, pause, prompt, answer in steps:
        now += pause / 8
        if what == "come":
            came = limits.enter(of, 1, prompt, now)
            if isinstance(came, Admission):
                assert len(live) < 4
                assert spent(now) + prompt <= limit
                live.append(Ended(came, now, prompt))
            elif len(live) < 4:
                assert came.retry_after_s is not None
                assert spent(now) + prompt > limit >= spent(now + came.retry_after_s) + prompt
        elif live:
            one = live.pop(answer % len(live))
            if what in ("answered", "left early"):
                one.admission.used(prompt, answer)
                one.costs = [(one.came, prompt), (now, answer)]
            elif what == "lost":  # with the process that knew: what was presumed stays
                one.costs = [(one.came, one.presumed)]
            else:
                one.admission.answered_nothing(refused=what == "refused")
            limits.leave(one.admission, now)
            ended.append(one)
        tokens = limits.standing(of, now).tokens
        assert tokens is not None
        assert limits.tokens("k1") == spent(now)
        assert tokens.remaining == max(0, limit - spent(now))
        assert spent(now + tokens.reset_s) == 0
        assert limits.live("k1") == len(live)
    for one in live:
        limits.leave(one.admission, now)
    limits.forget_old(now + WINDOW_S)
    assert not limits._accounts
