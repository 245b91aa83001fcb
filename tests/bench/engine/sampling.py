"""What choosing a token costs: a step of sixteen answers, greedy and in other ways, all at once in each."""

from __future__ import annotations

import json
import statistics
from typing import Any

from tests.bench.engine.decode import STEPS
from tests.bench.engine.run import Run
from tests.bench.engine.turns import take_turns
from tests.bench.peers.pool import tandem
from tests.bench.rows import Row, missing

ANSWERS, CONTEXT, ROUNDS = 16, 128, 2
OURS = tandem("float32")

#: Ends so late that no answer of a measurement does.
_SCHEMA = {
    "type": "array",
    "minItems": 500,
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    },
}

#: The first is what the others are compared with.
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "temperature and top-p": {"temperature": 0.8, "top_p": 0.9},
    "top-k and min-p": {"temperature": 0.8, "top_k": 40, "min_p": 0.05},
    "penalties": {"repetition_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": 0.2},
    "5 logprobs": {"logprobs": 5},
    "JSON schema": {"grammar": {"type": "json", "schema": json.dumps(_SCHEMA)}},
}


def rows(run: Run) -> list[Row]:
    seen: dict[str, list[float]] = {way: [] for way in WAYS}
    failed: dict[str, str] = {}
    for _ in range(run.rounds(ROUNDS)):
        for way, sampling in WAYS.items():
            print(f"sampling: {way}", flush=True)
            question = {"do": "step", "answers": ANSWERS, "context": CONTEXT, "steps": STEPS, "sampling": sampling}
            turns = take_turns(run.peers, {OURS: 1}, question)
            seen[way] += turns.samples.get(OURS.name, [])
            failed |= {way: turns.why_not(OURS)} if turns.failures else {}
    greedy = statistics.median(seen["greedy"]) if seen["greedy"] else None
    return [_row(way, seen[way], greedy, failed.get(way, "")) for way in WAYS if way != "greedy"]


def _row(way: str, seconds: list[float], greedy: float | None, why_not: str) -> Row:
    name = f"step of {ANSWERS} answers, fp32, {way}"
    if not seconds or greedy is None:
        return missing(name, why_not or "the greedy step is unknown", compared_with="greedy")
    step = statistics.median(seconds)
    return Row(
        name=name,
        unit="ms a step",
        value=step * 1000,
        compared_with="greedy",
        reference=greedy * 1000,
        ratio=step / greedy,
        details={"seconds": seconds},
    )
