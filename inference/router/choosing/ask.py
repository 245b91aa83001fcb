"""What a request needs, and which workers it is better not to send to or must not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from inference.router.choosing.standing import Standing, WorkerKey

Standings = Mapping[WorkerKey, Standing]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request needs, as estimated before a worker has tokenised it.

    answer_tokens: the longest answer. held: prompt tokens that workers are presumed to have KV of. session: the same
    for all turns of a conversation; None is no session. earlier_tokens: of the prompt, what earlier turns had in
    theirs. itl_target_s: promised time between tokens.
    """

    prompt_tokens: int
    answer_tokens: int = 0
    held: Mapping[WorkerKey, int] = field(default_factory=dict)
    session: int | None = None
    earlier_tokens: int = 0
    itl_target_s: float | None = None


@dataclass(frozen=True, slots=True)
class Barred:
    """suspects: used when there is no other. excluded: never used."""

    suspects: Collection[WorkerKey] = ()
    excluded: Collection[WorkerKey] = ()
