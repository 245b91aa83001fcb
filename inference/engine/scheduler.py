"""What the next step computes: continuous batching (Yu et al., OSDI 2022), chunked prefill (Agrawal et al., OSDI 2024).

Every running answer gets its next token in every step, so long prompts can't hold answers up for longer than one chunk
takes; prompts share a budget of their own in order of priority and arrival, so answers can't hold prompts up either.

A request is admitted with blocks for its whole life, so memory never runs out under a running answer. One that has to
make way for a more urgent one just pauses: its KV and its tokens stay where they are.
"""

from __future__ import annotations

import itertools
from bisect import insort
from dataclasses import dataclass

from inference.engine.sequence import Sequence
from inference.engine.step_budget import StepBudget

#: Prompt tokens that are read together where prompts are read whole. With more, reading several in one step saves
#: nothing, and the first would have to wait for the last.
_TOGETHER_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Chunk:
    """Compute tokens [start, end) of `sequence` in this step."""

    sequence: Sequence
    start: int
    end: int

    @property
    def samples(self) -> bool:
        """Whether the step yields a new token of the sequence."""
        return self.end == len(self.sequence.token_ids)


class Scheduler:
    """Requests that wait and run. Not thread-safe: its owner locks.

    max_running: most requests taken out of the queue at a time. chunk_tokens: most prompt tokens per step; 0 reads
    prompts whole. itl_target_s: what a step with running answers may take; 0 sets no limit.
    """

    def __init__(self, max_running: int, chunk_tokens: int, itl_target_s: float = 0.0) -> None:
        self._max_running = max_running
        self._chunk_tokens = chunk_tokens
        self._budget = StepBudget(itl_target_s) if itl_target_s else None
        self._arrivals = itertools.count(1)
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []

    def __contains__(self, sequence: Sequence) -> bool:
        return sequence in self.running or sequence in self.waiting

    def add(self, sequence: Sequence) -> None:
        """Queue `sequence`: at its place if it has been here before, else behind all of its priority."""
        sequence.arrival = sequence.arrival or next(self._arrivals)
        insort(self.waiting, sequence, key=_rank)

    def remove(self, sequence: Sequence) -> None:
        """Forget `sequence`, wherever it is."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def plan(self) -> list[Chunk]:
        """Chunks of the next step, those of running answers first; empty when there is nothing to do."""
        self._admit()
        answers = [Chunk(s, s.computed, s.computed + 1) for s in self.running if not s.reading]
        reading = sorted((s for s in self.running if s.reading), key=_rank)
        return answers + _prompt_chunks(reading, self._limit(bool(answers)))

    def measured(self, chunks: list[Chunk], seconds: float) -> None:
        """The step that computed `chunks` took `seconds`. To be told before the sequences are moved on."""
        if self._budget is not None:
            reading = [chunk.end - chunk.start for chunk in chunks if chunk.sequence.reading]
            self._budget.measured(len(chunks) - len(reading), sum(reading), seconds)

    def _admit(self) -> None:
        while self.waiting and (len(self.running) < self._max_running or self._pause_for(self.waiting[0])):
            self.running.append(self.waiting.pop(0))

    def _pause_for(self, urgent: Sequence) -> bool:
        """Put a less urgent request back into the queue; whether there was one."""
        last = max(self.running, key=_rank)
        if last.priority <= urgent.priority:
            return False
        self.running.remove(last)
        self.add(last)
        return True

    def _limit(self, answering: bool) -> int | None:
        """Prompt tokens of the next step; None reads whole prompts."""
        limits = [self._chunk_tokens] if self._chunk_tokens else []
        if answering and self._budget is not None:
            limits.append(self._budget.tokens())
        return min(limits, default=None)


def _prompt_chunks(reading: list[Sequence], limit: int | None) -> list[Chunk]:
    """As much of the prompts, in this order, as the limit allows; without one, whole prompts, and always the first."""
    chunks: list[Chunk] = []
    left = _TOGETHER_TOKENS if limit is None else limit
    for sequence in reading:
        length = sequence.unread if limit is None else min(sequence.unread, left)
        if left <= 0 or (chunks and length > left):
            break
        chunks.append(Chunk(sequence, sequence.computed, sequence.computed + length))
        left -= length
    return chunks


def _rank(sequence: Sequence) -> tuple[int, int]:
    return sequence.priority, sequence.arrival
