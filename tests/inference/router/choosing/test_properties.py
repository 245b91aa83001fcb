"""What holds of every choice, whatever is known of the workers."""

from __future__ import annotations

import random
from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.states import Role
from inference.router.choosing.ask import Ask, Barred
from inference.router.choosing.pick_decode import pick_decode
from inference.router.choosing.pick_prefill import Handoff, pick_prefill
from inference.router.choosing.roster import Roster, roster_of
from inference.router.choosing.standing import Pace, Standing, WorkerKey
from tests.inference.router.choosing.crew import D1, deployment, worker

COUNTS = st.integers(0, 5000)
PACES = st.floats(1e-4, 1e-1)


@st.composite
def standings(draw: st.DrawFn, *, known: bool) -> Standing:
    """known: everything was measured."""
    standing = Standing(
        answers=draw(st.integers(0, 40)),
        others_answers=draw(st.integers(0, 40)),
        kv_tokens=draw(COUNTS),
        others_kv_tokens=draw(COUNTS),
        backlog_tokens=draw(COUNTS),
        others_backlog_tokens=draw(COUNTS),
    )
    if known or draw(st.booleans()):
        standing.kv_tokens_total = draw(st.integers(10_000, 100_000))
    if known or draw(st.booleans()):
        standing.reading.add(draw(PACES), 1)
    for running in draw(st.lists(st.integers(1, 40), min_size=1 if known else 0, max_size=4)):
        standing.writing.add(draw(PACES), 1, running)
    return standing


@st.composite
def fleets(draw: st.DrawFn, role: Role, *, known: bool = False) -> dict[WorkerKey, Standing]:
    count = draw(st.integers(1, 8))
    return {(f"{role}{number}", "1"): draw(standings(known=known)) for number in range(count)}


@st.composite
def asks(draw: st.DrawFn, fleet: dict[WorkerKey, Standing], *, session: bool = True) -> Ask:
    prompt = draw(st.integers(1, 4000))
    return Ask(
        prompt_tokens=prompt,
        answer_tokens=draw(st.integers(1, 500)),
        held={key: draw(st.integers(0, prompt)) for key in draw(st.sets(st.sampled_from(sorted(fleet))))},
        session=draw(st.integers(0, 2**64 - 1)) if session and draw(st.booleans()) else None,
        earlier_tokens=draw(st.integers(0, prompt)) if session else 0,
        itl_target_s=draw(st.none() | PACES),
    )


def roster_with(fleet: dict[WorkerKey, Standing], role: Role) -> Roster:
    others = (D1,) if role is Role.PREFILL else (worker("p", Role.PREFILL),)
    return roster_of(deployment(*(worker(name, role) for name, _ in fleet), *others))


@given(st.data())
def test_whoever_is_not_excluded_is_chosen_and_suspects_only_for_lack_of_others(data: st.DataObject) -> None:
    fleet = data.draw(fleets(Role.DECODE))
    some = st.sets(st.sampled_from(sorted(fleet)))
    barred = Barred(data.draw(some), data.draw(some))
    ask, rng = data.draw(asks(fleet)), random.Random(0)
    chosen = pick_decode(roster_with(fleet, Role.DECODE), fleet, ask, barred, rng)
    left = set(fleet) - set(barred.excluded)
    assert (chosen is not None) == bool(left)
    if chosen is not None:
        key = (chosen.worker_id, chosen.incarnation)
        assert key in left
        assert key not in barred.suspects or left <= set(barred.suspects)


@given(st.data())
def test_an_answer_has_room_and_its_pace_where_anybody_has_both(data: st.DataObject) -> None:
    fleet = data.draw(fleets(Role.DECODE, known=True))
    ask = data.draw(asks(fleet))
    chosen = pick_decode(roster_with(fleet, Role.DECODE), fleet, ask, Barred(), random.Random(0))
    assert chosen is not None
    need = ask.prompt_tokens + ask.answer_tokens

    def lacks(standing: Standing) -> tuple[bool, bool]:
        total, step = standing.kv_tokens_total, standing.step_with_one_more_s
        assert total is not None
        assert step is not None
        full = standing.kv_tokens + standing.others_kv_tokens + need > total
        slow = ask.itl_target_s is not None and standing.running > 0 and step > ask.itl_target_s
        return full, slow

    assert lacks(fleet[chosen.worker_id, "1"]) == min(map(lacks, fleet.values()))


@given(st.data())
def test_more_of_everything_that_speaks_against_a_worker_never_makes_it_the_choice(data: st.DataObject) -> None:
    """One that loses stays lost when more is there; without sessions and chance in it."""
    fleet = data.draw(fleets(Role.DECODE, known=True))
    ask = data.draw(asks(fleet, session=False))
    roster = roster_with(fleet, Role.DECODE)
    chosen = {pick_decode(roster, fleet, ask, Barred(), random.Random(seed)) for seed in range(20)}
    names = {each.worker_id for each in chosen if each is not None}
    losers = [key for key in sorted(fleet) if key[0] not in names]
    if losers:
        loser = data.draw(st.sampled_from(losers))
        fleet[loser].kv_tokens += data.draw(COUNTS)
        fleet[loser].answers += data.draw(st.integers(0, 10))
        again = pick_decode(roster, fleet, ask, Barred(), random.Random(data.draw(st.integers(0, 99))))
        assert again is not None
        assert again.worker_id != loser[0]


@given(st.data())
def test_the_partner_is_one_with_which_the_answer_is_nearly_soonest_under_way(data: st.DataObject) -> None:
    """Counted anew, in seconds: waiting and reading, then the hand-off; a pair that was not measured is a typical one.
    What differs by less than a quarter, or by a quarter of reading the prompt, is alike."""
    fleet = data.draw(fleets(Role.PREFILL, known=True))
    ask = data.draw(asks(fleet, session=False))
    measured = data.draw(st.sets(st.sampled_from(sorted(fleet))))
    paces = {key: Pace() for key in sorted(measured)}
    for pace in paces.values():
        pace.add(data.draw(PACES), 1)
    handoff = Handoff(data.draw(st.integers(0, ask.prompt_tokens)), paces)
    roster = roster_with(fleet, Role.PREFILL)
    chosen = pick_prefill(roster, D1, fleet, ask, Barred(), random.Random(data.draw(st.integers(0, 99))), handoff)
    assert chosen is not None
    typical = median(pace.each_s or 0.0 for pace in paces.values()) if paces else 0.0

    def seconds(key: WorkerKey) -> float:
        read_s = fleet[key].predicted_ttft_s(max(0, ask.prompt_tokens - ask.held.get(key, 0)))
        assert read_s is not None
        pace = paces[key].each_s if key in paces else typical
        assert pace is not None
        return read_s + handoff.tokens * pace

    best = min(fleet, key=seconds)
    slowest_s = max(standing.reading.each_s or 0.0 for standing in fleet.values())
    slack = 0.25 * ask.prompt_tokens * slowest_s + 5e-3
    assert seconds((chosen.worker_id, "1")) <= 1.25**2 * seconds(best) + slack
