"""Who reads the prompt."""

from __future__ import annotations

from inference.contracts.states import Role
from inference.router.choosing.ask import Ask
from inference.router.choosing.pick_prefill import Handoff
from inference.router.choosing.roster import roster_of
from inference.router.choosing.standing import Pace, Standing
from tests.inference.router.choosing.crew import P, Q, deployment, paced, prefilling, worker


def test_only_equal_fingerprints_pair() -> None:
    other = worker("other", Role.PREFILL, fingerprint="fp2")
    assert prefilling([other]) is None
    assert prefilling([other, P]) == "p"
    deaf = worker("deaf", Role.DECODE, transfer=False)
    assert roster_of(deployment(P, deaf)).partners(deaf).workers == ()


def test_the_prefill_worker_with_the_fewest_waiting_tokens_reads_the_prompt() -> None:
    standings = {"p": Standing(backlog_tokens=200), "q": Standing(backlog_tokens=10, answers=9)}
    assert prefilling([P, Q], standings) == "q"
    assert prefilling([P, Q], standings, excluded={"q"}) == "p"
    assert prefilling([P, Q], standings, suspects={"q"}) == "p"
    others = {"p": Standing(backlog_tokens=200), "q": Standing(others_backlog_tokens=500)}
    assert prefilling([P, Q], others) == "p"


def test_a_faster_prefill_worker_may_have_more_waiting() -> None:
    fast, slow = paced(Standing(backlog_tokens=300), reading=0.001), paced(Standing(), reading=0.01)
    assert prefilling([P, Q], {"p": fast, "q": slow}) == "p"
    unknown = Standing()
    assert prefilling([P, Q], {"p": fast, "q": unknown}) == "q", "an unknown pace is not taken for a slow one"


def test_a_prefix_draws_a_prompt_until_its_worker_has_more_waiting_than_it_saves() -> None:
    ask = Ask(1000, held={("p", "1"): 900})
    assert prefilling([P, Q], {"p": Standing(backlog_tokens=400)}, ask) == "p"
    assert prefilling([P, Q], {"p": Standing(backlog_tokens=2000)}, ask) == "q"


def handing(tokens: int, **paces: float) -> Handoff:
    """paces: of prefill workers, in seconds for a token."""
    known = {(name, "1"): Pace() for name in paces}
    for name, seconds in paces.items():
        known[name, "1"].add(seconds, 1)
    return Handoff(tokens, known)


def both(reading: float = 0.001, *, p: int = 0, q: int = 0) -> dict[str, Standing]:
    """Two workers of one pace, with so many tokens waiting."""
    return {
        "p": paced(Standing(backlog_tokens=p), reading=reading),
        "q": paced(Standing(backlog_tokens=q), reading=reading),
    }


def test_kv_that_takes_long_to_arrive_makes_a_partner_worse_until_the_other_has_more_waiting() -> None:
    far = handing(1000, p=0.002, q=0.0001)  # 2 s and 0.1 s
    assert prefilling([P, Q], both(), Ask(1000), handoff=far) == "q"
    assert prefilling([P, Q], both(q=1500), Ask(1000), handoff=far) == "q"
    assert prefilling([P, Q], both(q=2500), Ask(1000), handoff=far) == "p"
    assert prefilling([P, Q], both(q=1500), Ask(1000), handoff=handing(10, p=0.002, q=0.0001)) == "p"


def test_a_hand_off_that_was_not_measured_counts_as_a_typical_one() -> None:
    r = worker("r", Role.PREFILL)
    idle, far_and_near = paced(Standing(), reading=0.001), handing(1000, p=0.010, q=0.0001)
    for waiting, best in ((4000, "q"), (7000, "r")):  # q: 5.1 s or 8.1 s; r: 1 s and 5.05 s; p: 1 s and 10 s
        standings = {**both(q=waiting), "r": idle}
        assert prefilling([P, Q, r], standings, Ask(1000), handoff=far_and_near) == best
    alone = [prefilling([P, Q], both(p=400), Ask(1000), seed, handing(1000, p=0.010)) for seed in range(20)]
    assert set(alone) == {"q"}, "what is known of one says the same of the other"


def test_hand_offs_that_are_all_short_or_nearly_alike_decide_nothing() -> None:
    for alike in (handing(1000, p=4e-6, q=1e-6), handing(1000, p=0.0012, q=0.001)):
        chosen = {prefilling([P, Q], both(), Ask(1000), seed, alike) for seed in range(30)}
        assert chosen == {"p", "q"}


def test_hand_offs_are_left_out_while_the_pace_of_one_worker_is_unknown() -> None:
    standings = {"p": Standing(), "q": paced(Standing(backlog_tokens=600), reading=0.001)}
    assert prefilling([P, Q], standings, Ask(1000), handoff=handing(1000, p=0.1, q=0.0001)) == "p"


def test_a_prefill_worker_out_of_sight_is_the_last_resort() -> None:
    unseen = worker("unseen", Role.PREFILL, in_sight=False)
    busy = {"p": Standing(backlog_tokens=100)}
    assert prefilling([P, unseen], busy, suspects={"p"}) == "p"
    assert prefilling([P, unseen], busy, suspects={"p"}, excluded={"p"}) == "unseen"
    assert prefilling([unseen], busy, suspects={"p"}) == "unseen"
