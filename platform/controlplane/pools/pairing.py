"""Which workers of a deployment can serve together. Pure.

KV may be handed over only between workers of equal fingerprint: it covers the weights, the shape of K and V, precision
and block size. A worker that matches nobody looks healthy and serves nothing, so it is shown with both values (F06).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from inference.contracts.states import Role

_PARTNER = {Role.PREFILL: Role.DECODE, Role.DECODE: Role.PREFILL}
_SHOWN_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Peer:
    """A wanted worker. fingerprint: empty while not known. ready: it takes requests. revision: that it runs."""

    worker_id: str
    role: Role
    fingerprint: str
    ready: bool
    revision: int = 1


def serves(peers: Iterable[Peer]) -> bool:
    """Whether one unified worker, or one prefill and decode worker of equal fingerprint, are ready."""
    ready = [peer for peer in peers if peer.ready]
    prefill = {peer.fingerprint for peer in ready if peer.role == Role.PREFILL}
    decode = {peer.fingerprint for peer in ready if peer.role == Role.DECODE}
    return bool(prefill & decode) or any(peer.role == Role.UNIFIED for peer in ready)


def conflicts(peers: Iterable[Peer]) -> dict[str, str]:
    """Worker id -> why it can't pair, for each whose fingerprint none of its partners has while some are known.

    Workers of unlike revisions are not meant to pair: while one is rolled out, each looks for its own kind.
    """
    known = [peer for peer in peers if peer.fingerprint]
    shown: dict[tuple[Role | None, int], set[str]] = defaultdict(set)
    for peer in known:
        shown[peer.role, peer.revision].add(peer.fingerprint)
    found = {}
    for peer in known:
        partner = _PARTNER.get(peer.role)
        others = shown.get((partner, peer.revision))
        if others and peer.fingerprint not in others:
            theirs = ", ".join(sorted(_short(fingerprint) for fingerprint in others))
            found[peer.worker_id] = (
                f"can't exchange KV with any {partner} worker: its fingerprint is {_short(peer.fingerprint)}, "
                f"theirs {theirs}"
            )
    return found


def _short(fingerprint: str) -> str:
    return fingerprint[:_SHOWN_CHARACTERS]
