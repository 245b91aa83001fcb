"""Decoding: how long a step of so many answers takes after prompts of 512 tokens, beside three others."""

from __future__ import annotations

from tests.bench.engine.run import Run
from tests.bench.engine.turns import Turns, take_turns
from tests.bench.peers.pool import continuous, generate, tandem, vllm
from tests.bench.rows import Row, missing

BATCHES = (1, 4, 8, 16)
CONTEXT, STEPS = 512, 16

OURS = (tandem("float32"), tandem("bfloat16"))
VLLM = (vllm("float32"), vllm("bfloat16"))
GENERATE, CONTINUOUS = generate(), continuous()

#: Reading many prompts takes long, so of many answers there are fewer samples; continuous batching reads them slowest.
_ROUNDS = {1: 4, 4: 3, 8: 2, 16: 2}
_ROUNDS_OF_CONTINUOUS = {1: 2, 4: 1, 8: 1, 16: 1}

_AT_LEAST_GENERATE = {1: 1.05, 4: 1.05, 8: 1.05, 16: 1.15}
_AT_LEAST_CONTINUOUS = {1: 1.5, 4: 4.0, 8: 8.0, 16: 15.0}


def rows(run: Run) -> list[Row]:
    found: dict[str, list[Row]] = {"generate": [], "continuous": [], "vllm": []}
    for batch in BATCHES:
        turns = _measure(run, batch)
        found["generate"].append(_tokens(batch, turns, "generate", _AT_LEAST_GENERATE[batch], stretch=1.5))
        found["continuous"].append(_tokens(batch, turns, "continuous batching", _AT_LEAST_CONTINUOUS[batch]))
        found["vllm"].append(_step(batch, turns))
    return [row for rows in found.values() for row in rows]


def _measure(run: Run, batch: int) -> Turns:
    print(f"decode: {batch} answers", flush=True)
    rounds = {peer: run.rounds(_ROUNDS[batch]) for peer in (*OURS, GENERATE, *VLLM)}
    rounds[CONTINUOUS] = run.rounds(_ROUNDS_OF_CONTINUOUS[batch])
    question = {"do": "step", "answers": batch, "context": CONTEXT, "steps": STEPS}
    return take_turns(run.peers, rounds, question, siblings=(OURS, VLLM), kept=OURS[:1])


def _tokens(batch: int, turns: Turns, whose: str, target: float, stretch: float | None = None) -> Row:
    """Tokens per second in float32 beside one of transformers' two ways."""
    peer = GENERATE if whose == "generate" else CONTINUOUS
    name, compared = f"decode, batch {batch}, fp32", f"transformers {whose}"
    ours, theirs = turns.median(OURS[0]), turns.median(peer)
    if ours is None or theirs is None:
        return missing(name, turns.why_not(OURS[0], peer), compared_with=compared, target=target, stretch=stretch)
    return Row(
        name=name,
        unit="tok/s",
        value=batch / ours,
        compared_with=compared,
        reference=batch / theirs,
        ratio=theirs / ours,
        target=target,
        stretch=stretch,
        details=turns.details(OURS[0], peer),
    )


def _step(batch: int, turns: Turns) -> Row:
    """Milliseconds of a step beside vLLM, each in its better dtype."""
    name, limits = (
        f"decode, batch {batch}, best dtype",
        {"compared_with": "vLLM on CPU", "target": 0.85, "stretch": 1.1},
    )
    ours, theirs = turns.median(*OURS), turns.median(*VLLM)
    if ours is None or theirs is None:
        return missing(name, turns.why_not(*OURS, *VLLM), **limits)
    return Row(
        name=name,
        unit="ms a step",
        value=ours * 1000,
        reference=theirs * 1000,
        ratio=theirs / ours,
        details=turns.details(*OURS, *VLLM),
        **limits,
    )
