from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection

from inference.contracts.generation import ChatMessage, ChatPrompt, TextPrompt, TokenPrompt
from inference.contracts.reports import Address
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.states import PrefillPath, Role
from inference.router import pick
from inference.router.load import Load, WorkerKey, key_of

HERE = Address(host="127.0.0.1", port=1)


def worker(
    name: str,
    role: Role,
    *,
    fingerprint: str = "fp",
    blocks: int | None = 100,
    transfer: bool = True,
    in_sight: bool = True,
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
        kv_blocks_total=blocks,
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


def answering(workers: list[WorkerRoute], loads: dict[str, Load] | None = None, **sets: set[str]) -> str | None:
    by_key = {(name, "1"): load for name, load in (loads or {}).items()}
    keys = {kind: {(name, "1") for name in sets.get(kind, set())} for kind in ("suspects", "excluded")}
    chosen = pick.choose_answering(workers, by_key, rng=random.Random(1), **keys)
    return None if chosen is None else chosen.worker_id


P, D1, D2 = worker("p", Role.PREFILL), worker("d1", Role.DECODE), worker("d2", Role.DECODE)


def test_the_decode_worker_with_the_most_room_answers() -> None:
    assert answering([P, D1, D2], {"d1": Load(kv_tokens=50), "d2": Load(kv_tokens=10)}) == "d2"


def test_room_is_weighed_by_the_size_of_the_worker() -> None:
    big = worker("big", Role.DECODE, blocks=1000)
    assert answering([P, D1, big], {"d1": Load(kv_tokens=50), "big": Load(kv_tokens=100)}) == "big"


def test_an_unknown_size_is_not_taken_for_zero_or_for_endless() -> None:
    unknown = worker("unknown", Role.DECODE, blocks=None)
    assert answering([P, D1, unknown], {"d1": Load(kv_tokens=50), "unknown": Load(kv_tokens=60)}) == "d1"
    assert answering([P, D1, unknown], {"d1": Load(kv_tokens=70), "unknown": Load(kv_tokens=60)}) == "unknown"


def test_a_suspect_answers_only_when_there_is_no_other() -> None:
    assert answering([P, D1, D2], {"d2": Load(kv_tokens=99)}, suspects={"d1"}) == "d2"
    assert answering([P, D1], suspects={"d1"}) == "d1"


def test_a_worker_out_of_sight_answers_only_when_none_in_sight_does() -> None:
    unseen = worker("unseen", Role.DECODE, blocks=None, in_sight=False)
    assert answering([P, D1, unseen], {"d1": Load(kv_tokens=99)}) == "d1"
    assert answering([P, D1, unseen], suspects={"d1"}) == "d1"
    assert answering([P, D1, unseen], excluded={"d1"}) == "unseen"
    assert answering([P, unseen], suspects={"unseen"}) == "unseen"
    other = worker("other", Role.DECODE, blocks=None, in_sight=False)
    assert answering([P, unseen, other], suspects={"unseen"}) == "other"


def test_a_size_that_is_not_known_out_of_sight_does_not_matter_in_sight() -> None:
    big, unseen = worker("big", Role.DECODE, blocks=1000), worker("unseen", Role.DECODE, blocks=None, in_sight=False)
    assert answering([P, D1, big, unseen], {"d1": Load(kv_tokens=50), "big": Load(kv_tokens=100)}) == "big"


def test_a_partner_in_sight_goes_before_one_out_of_sight_and_that_before_none() -> None:
    q, far = worker("q", Role.PREFILL, in_sight=False), worker("far", Role.DECODE, fingerprint="other")
    far_q = worker("far-q", Role.PREFILL, fingerprint="other", in_sight=False)
    lonely = worker("lonely", Role.DECODE, fingerprint="third")
    assert answering([P, D1, far, far_q], {"d1": Load(kv_tokens=99)}) == "d1"
    assert answering([q, D1, lonely], {"d1": Load(kv_tokens=99)}) == "d1"


def test_an_excluded_worker_never_answers() -> None:
    assert answering([P, D1], excluded={"d1"}) is None


def test_a_decode_worker_with_a_partner_goes_before_one_without() -> None:
    lonely = worker("lonely", Role.DECODE, fingerprint="other")
    assert answering([P, lonely, D1], {"d1": Load(kv_tokens=99)}) == "d1"


def test_prefill_workers_never_answer() -> None:
    assert answering([P]) is None


def test_equal_workers_share_the_work() -> None:
    rng = random.Random(3)
    chosen = Counter(
        key_of(pick.choose_answering([P, D1, D2], {}, suspects=(), excluded=(), rng=rng))[0]  # type: ignore[arg-type]
        for _ in range(200)
    )
    assert min(chosen["d1"], chosen["d2"]) > 60


def test_only_equal_fingerprints_pair() -> None:
    other = worker("other", Role.PREFILL, fingerprint="fp2")
    assert pick.partners(D1, [P, other, D2]) == [P]
    assert pick.partners(worker("deaf", Role.DECODE, transfer=False), [P]) == []


def test_the_prefill_worker_with_the_fewest_waiting_tokens_reads_the_prompt() -> None:
    q = worker("q", Role.PREFILL)
    loads = {key_of(P): Load(backlog_tokens=100, answers=0), key_of(q): Load(backlog_tokens=10, answers=9)}
    chosen = pick.choose_prefill(D1, [P, q, D1], loads, suspects=(), excluded=(), rng=random.Random(1))
    assert chosen is q
    chosen = pick.choose_prefill(D1, [P, q, D1], loads, suspects=(), excluded={key_of(q)}, rng=random.Random(1))
    assert chosen is P
    chosen = pick.choose_prefill(D1, [P, q, D1], loads, suspects={key_of(q)}, excluded=(), rng=random.Random(1))
    assert chosen is P


def test_a_prefill_worker_out_of_sight_is_the_last_resort() -> None:
    unseen = worker("unseen", Role.PREFILL, in_sight=False)

    def chosen(*workers: WorkerRoute, excluded: Collection[WorkerKey] = ()) -> WorkerRoute | None:
        busy = {key_of(P): Load(backlog_tokens=100)}
        return pick.choose_prefill(D1, workers, busy, suspects={key_of(P)}, excluded=excluded, rng=random.Random(1))

    assert chosen(P, unseen) is P
    assert chosen(P, unseen, excluded={key_of(P)}) is unseen
    assert chosen(unseen) is unseen


def test_few_uncached_tokens_are_read_by_the_decode_worker_itself() -> None:
    assert pick.choose_path(D1, 16, 16) is PrefillPath.LOCAL
    assert pick.choose_path(D1, 17, 16) is PrefillPath.HANDOFF
    assert pick.choose_path(worker("u", Role.UNIFIED), 9999, 16) is PrefillPath.LOCAL


def test_servable_means_one_unified_worker_or_one_full_pair() -> None:
    assert pick.servable(deployment(P, D1))
    assert pick.servable(deployment(worker("u", Role.UNIFIED)))
    assert not pick.servable(deployment(D1))
    assert not pick.servable(deployment(P))
    assert not pick.servable(deployment(P, worker("x", Role.DECODE, fingerprint="y")))


def test_what_is_missing_is_named() -> None:
    assert pick.what_is_missing(deployment(P)) == "No decode worker of 'chat' is ready."
    assert pick.what_is_missing(deployment(D1)) == "No prefill worker of 'chat' is ready."
    mismatch = deployment(P, worker("x", Role.DECODE, fingerprint="y"))
    assert pick.what_is_missing(mismatch).startswith("No pair of 'chat' is ready")


def test_prompt_lengths_are_estimated_by_bytes() -> None:
    assert pick.estimate_tokens(TokenPrompt(token_ids=(1, 2, 3))) == 3
    assert pick.estimate_tokens(TextPrompt(text="x" * 400)) == 101
    chat = ChatPrompt(messages=(ChatMessage(role="user", content="한" * 4),))
    assert pick.estimate_tokens(chat) == 4
