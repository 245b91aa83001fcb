"""What leaves a router for a client, choice by choice."""

from __future__ import annotations

import json
from typing import Any

from inference.contracts.generation import TokenDelta
from inference.router.openai.chat_answer import ChatShape
from inference.router.openai.completion_answer import CompletionShape
from inference.router.travel.outlet import StreamOutlet


class Written:
    """Stands in for the writer of events."""

    def __init__(self) -> None:
        self.begun = False
        self.events: list[dict[str, Any]] = []

    def flows(self) -> bool:
        return False

    async def write(self, events: bytes) -> None:
        self.begun = True
        self.events += [json.loads(each.removeprefix(b"data: ")) for each in events.strip().split(b"\n\n")]


def told(text: str) -> TokenDelta:
    return TokenDelta(token_ids=(1,), text=text)


async def test_choices_of_a_chat_are_opened_in_order_whichever_comes_first() -> None:
    written = Written()
    outlet = StreamOutlet(ChatShape("1", 0, "m"), written, include_usage=False)  # type: ignore[arg-type]
    for index, text in ((2, "c"), (0, "a"), (3, "d"), (2, "C")):
        outlet.send(index, told(text))
    await outlet.flush()
    choices = [event["choices"][0] for event in written.events]
    assert [each["index"] for each in choices if "role" in each["delta"]] == [0, 1, 2, 3]
    assert [(each["index"], each["delta"]["content"]) for each in choices if "role" not in each["delta"]] == [
        (2, "c"),
        (0, "a"),
        (3, "d"),
        (2, "C"),
    ]


async def test_an_answer_of_which_the_client_has_nothing_may_be_begun_anew() -> None:
    """Also while another prompt of the same request is being answered."""
    outlet = StreamOutlet(CompletionShape("1", 0, "m"), Written(), include_usage=False)  # type: ignore[arg-type]
    outlet.send(1, told("b"))
    await outlet.flush()
    assert outlet.forget(0)
    assert not outlet.forget(1)
