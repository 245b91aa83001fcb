"""Changing labels one by one, where the API replaces them all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def relabelled(labels: Iterable[str], changes: Sequence[str]) -> tuple[str, ...]:
    """`labels` once `changes` were made: "fast" and "rack=r7" are added, a key has one value; "fast-" and "rack-" are
    removed."""
    kept = list(labels)
    for change in changes:
        removes = change.endswith("-") and "=" not in change
        key = change[:-1] if removes else change.partition("=")[0]
        kept = [label for label in kept if label.partition("=")[0] != key]
        if not removes:
            kept.append(change)
    return tuple(sorted(kept))
