"""Who writes the answer."""

from __future__ import annotations

import random
from collections import Counter

from inference.contracts.states import Role
from inference.router.choosing.ask import Ask, Barred
from inference.router.choosing.looking import MOST_LOOKED_AT
from inference.router.choosing.pick_decode import pick_decode
from inference.router.choosing.roster import roster_of
from inference.router.choosing.standing import Standing, WorkerKey
from tests.inference.router.choosing.crew import D1, D2, P, answering, by_key, deployment, kv, paced, worker


def test_the_decode_worker_with_the_most_room_answers() -> None:
    assert answering([P, D1, D2], {"d1": kv(50), "d2": kv(10)}) == "d2"


def test_what_other_routers_have_there_counts_too() -> None:
    assert answering([P, D1, D2], {"d1": kv(20), "d2": kv(10, others_kv_tokens=100)}) == "d1"


def test_room_is_weighed_by_the_size_of_the_worker() -> None:
    big = worker("big", Role.DECODE)
    assert answering([P, D1, big], {"d1": kv(500, 1000), "big": kv(1000, 10_000)}) == "big"


def test_an_unknown_size_is_not_taken_for_zero_or_for_endless() -> None:
    unknown = worker("unknown", Role.DECODE)
    assert answering([P, D1, unknown], {"d1": kv(50, 1000), "unknown": kv(60)}) == "d1"
    assert answering([P, D1, unknown], {"d1": kv(70, 1000), "unknown": kv(60)}) == "unknown"


def test_a_worker_without_room_for_all_of_it_answers_only_when_none_has_room() -> None:
    small, large = kv(90, 100), kv(300, 1000)
    assert answering([P, D1, D2], {"d1": small, "d2": large}, Ask(20)) == "d2"
    assert answering([P, D1], {"d1": small}, Ask(20)) == "d1"


def test_a_notably_slower_worker_is_given_less() -> None:
    fast, slow = paced(kv(300), writing=0.02), paced(kv(200), writing=0.04)
    assert answering([P, D1, D2], {"d1": fast, "d2": slow}) == "d1"
    nearly = paced(kv(200), writing=0.022)
    assert answering([P, D1, D2], {"d1": fast, "d2": nearly}) == "d2"


def test_a_worker_that_would_break_the_promised_time_between_tokens_comes_after_one_that_keeps_it() -> None:
    late, in_time = paced(kv(10, answers=1), writing=0.06), paced(kv(500, answers=9), writing=0.04)
    standings = {"d1": late, "d2": in_time}
    assert answering([P, D1, D2], standings, Ask(10, itl_target_s=0.05)) == "d2"
    idle = paced(kv(0), writing=0.06)  # measured under a load that is gone
    assert answering([P, D1, D2], {"d1": idle, "d2": in_time}, Ask(10, itl_target_s=0.05)) == "d1"


def test_the_time_between_tokens_is_that_with_one_answer_more_and_not_what_was_measured_under_another_load() -> None:
    crowded, quiet = kv(100, answers=19), kv(150, answers=2)
    for standing in (crowded, quiet):
        for running in (1, 5, 10, 15):  # the same line, 20 ms + 1 ms for each answer
            standing.writing.add(100 * (0.020 + 0.001 * running), 100, running)
    standings = {"d1": crowded, "d2": quiet}
    assert answering([P, D1, D2], standings) == "d2", "a step of the crowded one takes 40 ms, of the other 23 ms"
    assert answering([P, D1, D2], standings, Ask(10, itl_target_s=0.035)) == "d2"
    full = kv(10_000, answers=2)
    full.writing = quiet.writing
    assert answering([P, D1, D2], {"d1": crowded, "d2": full}) == "d1", "pace is not all"
    assert answering([P, D1, D2], {"d1": crowded, "d2": full}, Ask(10, itl_target_s=0.035)) == "d2"


def test_what_a_slow_worker_has_of_the_prompt_makes_it_no_better_for_being_slow() -> None:
    ask = Ask(1000, held={("d1", "1"): 900, ("d2", "1"): 900})
    fast, slow = paced(kv(0), writing=0.02), paced(kv(0), writing=0.2)
    assert answering([P, D1, D2], {"d1": slow, "d2": fast}, ask) == "d2"


def test_what_a_worker_has_of_the_prompt_counts_as_much_as_it_saves() -> None:
    ask = Ask(1000, held={("d1", "1"): 800})
    assert answering([P, D1, D2], {"d1": kv(500)}, ask) == "d1"
    assert answering([P, D1, D2], {"d1": kv(5000)}, ask) == "d2"


def test_a_suspect_answers_only_when_there_is_no_other() -> None:
    assert answering([P, D1, D2], {"d2": kv(99)}, suspects={"d1"}) == "d2"
    assert answering([P, D1], suspects={"d1"}) == "d1"


def test_a_worker_out_of_sight_answers_only_when_none_in_sight_does() -> None:
    unseen = worker("unseen", Role.DECODE, in_sight=False)
    assert answering([P, D1, unseen], {"d1": kv(99)}) == "d1"
    assert answering([P, D1, unseen], suspects={"d1"}) == "d1"
    assert answering([P, D1, unseen], excluded={"d1"}) == "unseen"
    assert answering([P, unseen], suspects={"unseen"}) == "unseen"
    other = worker("other", Role.DECODE, in_sight=False)
    assert answering([P, unseen, other], suspects={"unseen"}) == "other"


def test_a_size_that_is_not_known_out_of_sight_does_not_matter_in_sight() -> None:
    big, unseen = worker("big", Role.DECODE), worker("unseen", Role.DECODE, in_sight=False)
    assert answering([P, D1, big, unseen], {"d1": kv(500, 1000), "big": kv(1000, 10_000)}) == "big"


def test_a_partner_in_sight_goes_before_one_out_of_sight_and_that_before_none() -> None:
    q, far = worker("q", Role.PREFILL, in_sight=False), worker("far", Role.DECODE, fingerprint="other")
    far_q = worker("far-q", Role.PREFILL, fingerprint="other", in_sight=False)
    lonely = worker("lonely", Role.DECODE, fingerprint="third")
    assert answering([P, D1, far, far_q], {"d1": kv(99)}) == "d1"
    assert answering([q, D1, lonely], {"d1": kv(99)}) == "d1"


def test_an_excluded_worker_never_answers() -> None:
    assert answering([P, D1], excluded={"d1"}) is None


def test_a_decode_worker_with_a_partner_goes_before_one_without() -> None:
    lonely, deaf = worker("lonely", Role.DECODE, fingerprint="other"), worker("deaf", Role.DECODE, transfer=False)
    assert answering([P, lonely, deaf, D1], {"d1": kv(99)}) == "d1"


def test_prefill_workers_never_answer() -> None:
    assert answering([P]) is None


def test_equal_workers_share_the_work() -> None:
    chosen = Counter(answering([P, D1, D2], seed=seed) for seed in range(200))
    assert min(chosen["d1"], chosen["d2"]) > 60


def test_a_session_keeps_its_worker_while_it_is_nearly_as_good_as_another() -> None:
    sessions = [random.Random(number).getrandbits(64) for number in range(64)]
    first = [answering([P, D1, D2], ask=Ask(10, session=session), seed=1) for session in sessions]
    assert first == [answering([P, D1, D2], ask=Ask(10, session=session), seed=2) for session in sessions]
    assert {"d1", "d2"} == set(first)
    loaded = {"d1": kv(100)}
    assert {answering([P, D1, D2], loaded, Ask(10, session=session)) for session in sessions} == {"d2"}


def test_of_very_many_workers_a_good_one_is_found_without_looking_at_all() -> None:
    many = [worker(f"d{number}", Role.DECODE) for number in range(500)]
    standings = {each.worker_id: kv(1000 + number) for number, each in enumerate(many)}
    for seed in range(20):
        chosen = answering([P, *many], standings, seed=seed)
        assert chosen is not None
        assert int(chosen[1:]) <= 500 - 48
    held = Ask(5000, held={("d499", "1"): 5000})
    assert answering([P, *many], standings, held) == "d499"
    only = {each.worker_id for each in many} - {"d7"}
    assert answering([P, *many], standings, suspects=only) == "d7"
    assert answering([P, *many], standings, excluded=only) == "d7"


def test_the_work_of_a_choice_does_not_grow_with_the_fleet_beyond_what_is_looked_at() -> None:
    class Counted(dict[WorkerKey, Standing]):
        looks = 0

        def get(self, *arguments: object) -> Standing:  # type: ignore[override]
            self.looks += 1
            return super().get(*arguments)  # type: ignore[arg-type,return-value]

    def looks(count: int) -> int:
        workers = [worker(f"d{number}", Role.DECODE) for number in range(count)]
        standings = Counted(by_key({each.worker_id: kv(number, 10_000) for number, each in enumerate(workers)}))
        roster = roster_of(deployment(P, *workers))
        assert pick_decode(roster, standings, Ask(10), Barred(), random.Random(1)) is not None
        return standings.looks

    assert looks(1000) == looks(100) <= 5 * MOST_LOOKED_AT
