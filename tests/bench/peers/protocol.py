"""The peer's end of the protocol. Imports nothing but the standard library: other environments run it."""

from __future__ import annotations

import itertools
import json
import os
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

#: Token ids of prompts: ordinary words of the model that is measured, no control tokens.
_IDS = range(1000, 40000)


class Peer(Protocol):
    def prompt(self, prompt: list[int]) -> float:
        """Seconds to the first token after `prompt`, alone."""

    def step(self, prompts: list[list[int]], steps: int, **sampling: Any) -> float:
        """Seconds of a step that writes one token after each of `prompts`: median over `steps` or more in which all of
        them run. A peer that is asked about sampling gets `sampling`, fields of Tandem's message of that name."""


def serve(make: Callable[[str, dict[str, Any]], Peer]) -> None:
    """Build a peer from the arguments of the process, and answer until there are no more questions."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries print what they like; the answers stay clean
    peer = make(sys.argv[1], json.loads(sys.argv[2]))
    answers.write(json.dumps({"seconds": 0.0}) + "\n")
    for line in sys.stdin:
        try:
            answers.write(json.dumps({"seconds": _answer(peer, json.loads(line))}) + "\n")
        except Exception as error:
            answers.write(json.dumps({"error": repr(error)}) + "\n")


def _answer(peer: Peer, question: dict[str, Any]) -> float:
    draw = random.Random(question["seed"])
    if question["do"] == "prompt":
        return peer.prompt([draw.choice(_IDS) for _ in range(question["tokens"])])
    prompts = [[draw.choice(_IDS) for _ in range(question["context"])] for _ in range(question["answers"])]
    chosen = {"sampling": question["sampling"]} if "sampling" in question else {}
    return peer.step(prompts, question["steps"], **chosen)


def median_gap(moments: Sequence[float]) -> float:
    return statistics.median(after - before for before, after in itertools.pairwise(moments))


def together(answers: Sequence[Sequence[float]]) -> list[float]:
    """Of the moments at which tokens of several answers came, those of the last one while all were being written."""
    all_run, one_ends = max(times[0] for times in answers), min(times[-1] for times in answers)
    last = max(answers, key=lambda times: times[0])
    return [moment for moment in last if all_run <= moment <= one_ends]
