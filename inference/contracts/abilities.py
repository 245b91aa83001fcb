"""What of a request a worker can do, so that a router can refuse the rest without asking it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

#: The library by which the native engine follows JSON Schemas: `inference/structured`.
LLGUIDANCE = "llguidance"

T = TypeVar("T", int, bool)


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """Of a worker's model and engine. None is "not known": then the worker decides.

    vocab_size: token ids are below it. max_answers: most answers to one prompt (`Sampling.n`). chat: the model has a
    chat template. tools: how it writes calls of tools is known. schemas: the library that follows JSON Schemas; a
    router that has it, too, knows which ones can't be followed.
    """

    vocab_size: int | None = None
    max_answers: int | None = None
    chat: bool | None = None
    tools: bool | None = None
    schemas: str | None = None


def in_common(workers: Iterable[Abilities | None]) -> Abilities:
    """What each of `workers` can do, as far as it is known: a request may meet any of them."""
    known = [each for each in workers if each is not None]
    libraries = {each.schemas for each in known}
    return Abilities(
        vocab_size=_least(known, lambda each: each.vocab_size),
        max_answers=_least(known, lambda each: each.max_answers),
        chat=_least(known, lambda each: each.chat),
        tools=_least(known, lambda each: each.tools),
        schemas=libraries.pop() if len(libraries) == 1 else None,
    )


def _least(known: Iterable[Abilities], of: Callable[[Abilities], T | None]) -> T | None:
    return min((value for each in known if (value := of(each)) is not None), default=None)
