"""Claims about which workers can serve together (F06)."""

from __future__ import annotations

import pytest

from controlplane.pools.pairing import Peer, conflicts, serves
from inference.contracts.states import Role

PREFILL, DECODE, UNIFIED = Role.PREFILL, Role.DECODE, Role.UNIFIED


def peer(role: Role, fingerprint: str = "f", *, ready: bool = True, name: str = "") -> Peer:
    return Peer(worker_id=name or role, role=role, fingerprint=fingerprint, ready=ready)


@pytest.mark.parametrize(
    ("peers", "serving"),
    [
        ([], False),
        ([peer(PREFILL)], False),
        ([peer(DECODE)], False),
        ([peer(PREFILL), peer(DECODE)], True),
        ([peer(PREFILL, ready=False), peer(DECODE)], False),
        ([peer(PREFILL, "f"), peer(DECODE, "g")], False),
        ([peer(PREFILL, "f"), peer(DECODE, "g"), peer(PREFILL, "g", name="2")], True),
        ([peer(UNIFIED)], True),
        ([peer(UNIFIED, ready=False)], False),
    ],
)
def test_one_ready_pair_of_equal_fingerprint_or_one_unified_worker_serves(peers: list[Peer], serving: bool) -> None:
    assert serves(peers) == serving


def test_a_conflict_names_both_values_on_both_sides() -> None:
    found = conflicts([peer(PREFILL, "aaaa"), peer(DECODE, "bbbb")])

    assert found == {
        PREFILL: "can't exchange KV with any decode worker: its fingerprint is aaaa, theirs bbbb",
        DECODE: "can't exchange KV with any prefill worker: its fingerprint is bbbb, theirs aaaa",
    }


def test_a_worker_with_one_matching_partner_has_no_conflict() -> None:
    peers = [peer(PREFILL, "a"), peer(DECODE, "a", name="old"), peer(DECODE, "b", name="new")]

    assert set(conflicts(peers)) == {"new"}


def test_what_is_not_known_conflicts_with_nothing() -> None:
    assert conflicts([peer(PREFILL, ""), peer(DECODE, "b")]) == {}


def test_unified_workers_need_no_partner() -> None:
    assert conflicts([peer(UNIFIED, "a"), peer(UNIFIED, "b", name="2")]) == {}
