"""A step of one answer beside the time in which memory can be read: each weight once, by as many threads."""

from __future__ import annotations

import json
import math
import statistics
import struct
from pathlib import Path

from tests.bench.engine import bandwidth
from tests.bench.engine.decode import CONTEXT, STEPS
from tests.bench.engine.run import Run
from tests.bench.engine.turns import take_turns
from tests.bench.peers.pool import tandem
from tests.bench.rows import Row, missing

ROUNDS = 3
_TARGETS = {1: (0.70, 0.85), 2: (0.55, 0.75)}
_FLOAT32 = 4


def rows(run: Run) -> list[Row]:
    return [_row(run, threads) for threads in _TARGETS]


def _row(run: Run, threads: int) -> Row:
    name = f"decode, batch 1, fp32, {threads} thread{'s' * (threads > 1)}, of the weight-streaming bound"
    print(name, flush=True)
    peer, (target, stretch) = tandem("float32", threads), _TARGETS[threads]
    read: list[float] = []
    steps: list[float] = []
    question = {"do": "step", "answers": 1, "context": CONTEXT, "steps": STEPS}
    for _ in range(run.rounds(ROUNDS)):
        read.append(bandwidth.measured(threads))
        turns = take_turns(run.peers, {peer: 1}, question)
        if peer.name in turns.failures:
            return missing(name, turns.why_not(peer), target=target, stretch=stretch, judged="share")
        steps += turns.samples[peer.name]
    weights = count_weights(run.model) * _FLOAT32
    bound, step = weights / statistics.median(read), statistics.median(steps)
    return Row(
        name=name,
        unit="ms a step",
        value=step * 1000,
        compared_with=f"{weights / 1e6:.0f} MB at {statistics.median(read) / 1e9:.1f} GB/s",
        reference=bound * 1000,
        ratio=bound / step,
        target=target,
        stretch=stretch,
        judged="share",
        details={"bytes per second": read, "step seconds": steps, "weight bytes": weights},
    )


def count_weights(model: Path) -> int:
    """Numbers that a step reads: all of the checkpoint's, where tied embeddings are stored, and read, once. (Of untied
    input embeddings a step reads one row for each token.)"""
    tensors = _tensors(model)
    untied = "lm_head.weight" in tensors
    return sum(
        math.prod(shape) for name, shape in tensors.items() if not (untied and name.endswith("embed_tokens.weight"))
    )


def _tensors(model: Path) -> dict[str, list[int]]:
    """Names and shapes from the headers of safetensors files: 8 bytes of length, then JSON."""
    found: dict[str, list[int]] = {}
    for path in sorted(model.glob("*.safetensors")):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        found |= {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    return found
