from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from inference.contracts.reports import Address
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.states import PrefillPath, Role
from inference.router.choosing import pick
from inference.router.choosing.pick import Ask, Barred
from inference.router.choosing.roster import roster_of
from inference.router.choosing.standing import Standing, WorkerKey, key_of

HERE = Address(host="127.0.0.1", port=1)


def worker(
    name: str, role: Role, *, fingerprint: str = "fp", transfer: bool = True, in_sight: bool = True
) -> WorkerRoute:
    return WorkerRoute(
        worker_id=name,
        incarnation="1",
        pool_id="p",
        node_id="n",
        role=role,
        http=HERE,
        transfer=HERE if transfer and role is Role.DECODE else None,
        fingerprint=fingerprint,
        in_sight=in_sight,
    )


def deployment(*workers: WorkerRoute) -> DeploymentRoute:
    return DeploymentRoute(
        name="chat",
        model_name="m",
        created=0,
        context_length=None,
        local_prefill_tokens=0,
        default_max_tokens=8,
        workers=workers,
    )


def by_key(standings: Mapping[str, Standing]) -> dict[WorkerKey, Standing]:
    return {(name, "1"): standing for name, standing in standings.items()}


def barred(suspects: set[str] | None = None, excluded: set[str] | None = None) -> Barred:
    return Barred({(name, "1") for name in suspects or ()}, {(name, "1") for name in excluded or ()})


def kv(tokens: int, total: int | None = None, **more: int) -> Standing:
    return Standing(kv_tokens=tokens, kv_tokens_total=total, **more)


def paced(standing: Standing, *, reading: float | None = None, writing: float | None = None) -> Standing:
    standing.reading.add(reading or 0.0, 1)
    standing.writing.add(writing or 0.0, 1)
    return standing


def answering(
    workers: list[WorkerRoute],
    standings: Mapping[str, Standing] | None = None,
    ask: Ask = Ask(10),  # noqa: B008 - frozen
    seed: int = 1,
    **sets: set[str],
) -> str | None:
    roster = roster_of(deployment(*workers))
    chosen = pick.pick_decode(roster, by_key(standings or {}), ask, barred(**sets), random.Random(seed))
    return None if chosen is None else chosen.worker_id


def prefilling(
    workers: list[WorkerRoute],
    standings: Mapping[str, Standing] | None = None,
    ask: Ask = Ask(100),  # noqa: B008 - frozen
    seed: int = 1,
    **sets: set[str],
) -> str | None:
    roster = roster_of(deployment(*workers, D1))
    chosen = pick.pick_prefill(roster, D1, by_key(standings or {}), ask, barred(**sets), random.Random(seed))
    return None if chosen is None else chosen.worker_id


P, Q = worker("p", Role.PREFILL), worker("q", Role.PREFILL)
D1, D2 = worker("d1", Role.DECODE), worker("d2", Role.DECODE)


# --- who answers ---------------------------------------------------------------------------------


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
        assert pick.pick_decode(roster, standings, Ask(10), pick.FREE, random.Random(1)) is not None
        return standings.looks

    assert looks(1000) == looks(100) <= 5 * pick.MOST_LOOKED_AT


# --- who reads the prompt -----------------------------------------------------------------------


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


def test_a_prefill_worker_out_of_sight_is_the_last_resort() -> None:
    unseen = worker("unseen", Role.PREFILL, in_sight=False)
    busy = {"p": Standing(backlog_tokens=100)}
    assert prefilling([P, unseen], busy, suspects={"p"}) == "p"
    assert prefilling([P, unseen], busy, suspects={"p"}, excluded={"p"}) == "unseen"
    assert prefilling([unseen], busy, suspects={"p"}) == "unseen"


def test_few_uncached_tokens_are_read_by_the_decode_worker_itself() -> None:
    assert pick.decide_split(D1, 16, 16) is PrefillPath.LOCAL
    assert pick.decide_split(D1, 17, 16) is PrefillPath.HANDOFF
    assert pick.decide_split(worker("u", Role.UNIFIED), 9999, 16) is PrefillPath.LOCAL


def test_a_long_prompt_is_read_locally_where_that_is_clearly_sooner_and_disturbs_nobody() -> None:
    def split(here: Standing, elsewhere: Standing | None, threshold: int = 64) -> PrefillPath:
        return pick.decide_split(D1, 1000, threshold, here, elsewhere, 1000)

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
    assert pick.local_threshold(64, automatic=True, here=running, itl_target_s=0.050) == pytest.approx(200, abs=1)
    idle = paced(Standing(answers=1), reading=0.0001, writing=0.030)
    assert pick.local_threshold(64, automatic=True, here=idle, itl_target_s=0.050) == pytest.approx(500, abs=1)
    slow = paced(Standing(answers=3), reading=0.0001, writing=0.060)
    assert pick.local_threshold(64, automatic=True, here=slow, itl_target_s=0.050) == 0


def test_the_fixed_threshold_holds_while_something_is_unknown() -> None:
    known = paced(Standing(), reading=0.0001, writing=0.030)
    assert pick.local_threshold(64, automatic=False, here=known, itl_target_s=0.05) == 64
    assert pick.local_threshold(64, automatic=True, here=known, itl_target_s=None) == 64
    assert pick.local_threshold(64, automatic=True, here=Standing(), itl_target_s=0.05) == 64


# --- what is predicted and what is missing ------------------------------------------------------------


def test_the_soonest_first_token_is_predicted_from_backlog_and_pace() -> None:
    roster = roster_of(deployment(P, Q, D1))
    standings = {
        "p": paced(Standing(backlog_tokens=900), reading=0.001),
        "q": paced(Standing(backlog_tokens=100), reading=0.002),
    }
    assert pick.soonest_ttft_s(roster, by_key(standings), Ask(100)) == pytest.approx(0.4)
    held = Ask(1000, held={("p", "1"): 1000})
    assert pick.soonest_ttft_s(roster, by_key(standings), held) == pytest.approx(0.9)
    assert pick.soonest_ttft_s(roster, by_key({"p": standings["p"]}), Ask(100)) is None, "nobody knows what q can do"


def test_servable_means_one_unified_worker_or_one_full_pair() -> None:
    assert pick.servable(deployment(P, D1))
    assert pick.servable(deployment(worker("u", Role.UNIFIED)))
    assert not pick.servable(deployment(D1))
    assert not pick.servable(deployment(P))
    assert not pick.servable(deployment(P, worker("x", Role.DECODE, fingerprint="y")))
    assert not pick.servable(deployment(P, worker("deaf", Role.DECODE, transfer=False)))


def test_what_is_missing_is_named() -> None:
    assert pick.what_is_missing(deployment(P)) == "No decode worker of 'chat' is ready."
    assert pick.what_is_missing(deployment(D1)) == "No prefill worker of 'chat' is ready."
    mismatch = deployment(P, worker("x", Role.DECODE, fingerprint="y"))
    assert pick.what_is_missing(mismatch).startswith("No pair of 'chat' is ready")


@pytest.mark.parametrize("count", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("seed", range(3))
def test_a_ring_gives_no_worker_far_more_sessions_than_its_share(count: int, seed: int) -> None:
    ring = roster_of(deployment(*(worker(f"d{seed}-{number}", Role.DECODE) for number in range(count)))).answering
    rng = random.Random(seed)
    got = Counter(ring.pinned(rng.getrandbits(64)) for _ in range(500 * count))
    assert max(got.values()) < 1.2 * 500
    assert len(got) == count


def test_a_ring_moves_few_sessions_when_a_worker_leaves() -> None:
    many = [worker(f"d{number}", Role.DECODE) for number in range(8)]
    all_of_them, fewer = roster_of(deployment(*many)).answering, roster_of(deployment(*many[1:])).answering
    moved = 0
    for number in range(500):
        session = random.Random(number).getrandbits(64)
        before, after = all_of_them.pinned(session), fewer.pinned(session)
        assert before is not None
        assert after is not None
        moved += before.key != after.key
        assert before.key == key_of(many[0]) or before.key == after.key
    assert 0 < moved < 250
