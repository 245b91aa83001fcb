"""When a first token could come at the soonest."""

from __future__ import annotations

import msgspec
import pytest

from inference.contracts.states import Role
from inference.router.choosing.ask import Ask
from inference.router.choosing.roster import Roster, roster_of
from inference.router.choosing.soonest import soonest_ttft_s
from inference.router.choosing.standing import Standing
from tests.inference.router.choosing.crew import D1, P, Q, by_key, deployment, paced, worker


def test_the_soonest_first_token_is_predicted_from_backlog_and_pace() -> None:
    roster = roster_of(deployment(P, Q, D1))
    standings = {
        "p": paced(Standing(backlog_tokens=900), reading=0.001),
        "q": paced(Standing(backlog_tokens=100), reading=0.002),
    }
    assert soonest_ttft_s(roster, by_key(standings), Ask(100)) == pytest.approx(0.4)
    held = Ask(1000, held={("p", "1"): 1000})
    assert soonest_ttft_s(roster, by_key(standings), held) == pytest.approx(0.9)
    assert soonest_ttft_s(roster, by_key({"p": standings["p"]}), Ask(100)) is None, "nobody knows what q can do"


def reading_up_to(tokens: int) -> Roster:
    return roster_of(msgspec.structs.replace(deployment(P, D1), local_prefill_tokens=tokens))


def test_a_prompt_that_the_answering_worker_reads_itself_waits_for_no_prefill_worker() -> None:
    standings = {"p": paced(Standing(backlog_tokens=90_000), reading=0.001), "d1": paced(Standing(), reading=0.01)}
    roster = reading_up_to(64)
    assert soonest_ttft_s(roster, by_key(standings), Ask(50)) == pytest.approx(0.5)
    standings["d1"].answers = 3
    assert soonest_ttft_s(roster, by_key(standings), Ask(50)) == pytest.approx(0.5)
    assert soonest_ttft_s(roster, by_key(standings), Ask(100)) == pytest.approx(90.1), "it is busy and the prompt long"
    assert soonest_ttft_s(reading_up_to(0), by_key(standings), Ask(50)) == pytest.approx(90.05), "it reads none"


def test_an_idle_answering_worker_may_step_in_where_its_pace_is_known() -> None:
    standings = {"p": paced(Standing(backlog_tokens=90_000), reading=0.001), "d1": paced(Standing(), reading=0.01)}
    assert soonest_ttft_s(reading_up_to(64), by_key(standings), Ask(1000)) == pytest.approx(10.0)
    assert soonest_ttft_s(reading_up_to(64), by_key({"p": standings["p"]}), Ask(1000)) == pytest.approx(91.0)


def test_a_unified_worker_reads_every_prompt() -> None:
    roster = roster_of(deployment(worker("u", Role.UNIFIED)))
    assert soonest_ttft_s(roster, by_key({"u": paced(Standing(), reading=0.01)}), Ask(100)) == pytest.approx(1.0)
