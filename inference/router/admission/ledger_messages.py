"""What router processes behind one port and the keeper of their ledger say to each other, one line of JSON each.

Both ends are of one release: they are started from the same installation.
"""

from __future__ import annotations

import msgspec

from inference.router.admission.key_limits import Quota, Refusal, Standing


class Running(msgspec.Struct, frozen=True):
    """A request that was let in before. number: of the request, on its connection."""

    number: int
    quota: Quota
    prompts: int


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first line of a connection. running: what this process has, and the ledger perhaps not."""

    running: list[Running]


class Enter(msgspec.Struct, frozen=True, tag="enter"):
    """May this request run? As in `KeyLimits.enter`."""

    number: int
    quota: Quota
    prompts: int
    tokens: int


class Entered(msgspec.Struct, frozen=True, tag="entered"):
    """This request runs: let in by its process alone, which had not heard yet that the ledger is there."""

    request: Enter


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """It has ended. prompt_tokens: None where nothing is known of what it used. As in `Admission`."""

    number: int
    prompt_tokens: int | None
    answer_tokens: int
    refused: bool


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The answer to `Hello`: the ledger is there."""


class Verdict(msgspec.Struct, frozen=True, tag="verdict"):
    """The answer to `Enter`. refusal: None: it may."""

    number: int
    refusal: Refusal | None
    standing: Standing


ToLedger = Hello | Enter | Entered | Leave
to_ledger: msgspec.json.Decoder[ToLedger] = msgspec.json.Decoder(ToLedger)
from_ledger: msgspec.json.Decoder[Welcome | Verdict] = msgspec.json.Decoder(Welcome | Verdict)
