"""Deadlines of a deployment go before those of the router, one by one."""

from __future__ import annotations

import dataclasses

import pytest

from inference.contracts.routing_policy import RoutingPolicy, Waits
from inference.router.config import Deadlines
from inference.router.travel.deadlines import deadlines_of

DEFAULT = Deadlines()
OURS = {name: "first_event_s" if name == "first_token_s" else name for name in Waits.__struct_fields__}


def test_without_any_they_are_the_routers() -> None:
    assert deadlines_of(RoutingPolicy(), DEFAULT) is DEFAULT


@pytest.mark.parametrize(("theirs", "ours"), OURS.items())
def test_each_wait_of_a_policy_replaces_one_of_the_router_and_leaves_the_others(theirs: str, ours: str) -> None:
    assert deadlines_of(RoutingPolicy(**{theirs: 7.5}), DEFAULT) == dataclasses.replace(DEFAULT, **{ours: 7.5})


def test_a_router_waits_as_the_contract_says_where_nothing_is_set() -> None:
    assert {name: getattr(DEFAULT, ours) for name, ours in OURS.items()} == {
        name: getattr(Waits(), name) for name in OURS
    }
