"""Reading one prompt: beside the model's plain forward pass, beside vLLM, and in chunks."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.engine.decode import CONTINUOUS
from tests.bench.engine.run import Run
from tests.bench.engine.turns import Turns, take_turns
from tests.bench.peers.pool import generate, tandem, vllm
from tests.bench.peers.process import PeerSpec
from tests.bench.rows import Row, missing

PROMPTS = (128, 512, 1900)
ROUNDS = 3
CHUNK = 256

FLOAT32, CHUNKED = tandem("float32"), tandem("float32", chunk=CHUNK)
#: Prompts are read whole or, by default, in chunks: whatever is faster counts.
OURS = (FLOAT32, tandem("bfloat16"), tandem("bfloat16", chunk=CHUNK))
VLLM = (vllm("float32"), vllm("bfloat16"))
PLAIN = generate()


def rows(run: Run) -> list[Row]:
    run.peers.close(CONTINUOUS)
    plain, against_vllm = [], []
    for tokens in PROMPTS:
        print(f"prefill: {tokens} tokens", flush=True)
        peers = (*OURS, PLAIN, *VLLM, *((CHUNKED,) if tokens == PROMPTS[-1] else ()))
        turns = take_turns(
            run.peers,
            {peer: run.rounds(ROUNDS) for peer in peers},
            {"do": "prompt", "tokens": tokens},
            siblings=(OURS, VLLM),
            kept=(FLOAT32,),
        )
        plain.append(_rate(tokens, turns, (FLOAT32,), (PLAIN,), "plain forward pass", 1.0))
        against_vllm.append(_rate(tokens, turns, OURS, VLLM, "vLLM on CPU", 0.85, stretch=1.1))
    return [*plain, _cost_of_chunks(PROMPTS[-1], turns), *against_vllm]


def _rate(
    tokens: int,
    turns: Turns,
    ours: Sequence[PeerSpec],
    theirs: Sequence[PeerSpec],
    whose: str,
    target: float,
    stretch: float | None = None,
) -> Row:
    name = f"prefill, {tokens} tokens, {'fp32' if len(ours) == 1 else 'best dtype'}"
    mine, others = turns.median(*ours), turns.median(*theirs)
    if mine is None or others is None:
        return missing(name, turns.why_not(*ours, *theirs), compared_with=whose, target=target, stretch=stretch)
    return Row(
        name=name,
        unit="tok/s",
        value=tokens / mine,
        compared_with=whose,
        reference=tokens / others,
        ratio=others / mine,
        target=target,
        stretch=stretch,
        details=turns.details(*ours, *theirs),
    )


def _cost_of_chunks(tokens: int, turns: Turns) -> Row:
    """1 - rate in chunks / rate of the whole prompt."""
    name, limits = f"prefill, {tokens} tokens, cost of {CHUNK}-token chunks", {"target": 0.10, "better": "at most"}
    chunked, whole = turns.median(CHUNKED), turns.median(FLOAT32)
    if chunked is None or whole is None:
        return missing(name, turns.why_not(CHUNKED, FLOAT32), compared_with="whole prompt", **limits)
    return Row(
        name=name,
        unit="tok/s",
        value=tokens / chunked,
        compared_with="whole prompt",
        reference=tokens / whole,
        ratio=1 - whole / chunked,
        judged="share",
        details=turns.details(CHUNKED, FLOAT32),
        **limits,
    )
