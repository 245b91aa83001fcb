"""What the next step computes: continuous batching (Yu et al., OSDI 2022), chunked prefill (Agrawal et al., OSDI 2024).

Every running answer gets its next token in every step, so long prompts can't hold answers up for longer than one chunk
takes; prompts share a budget of their own in order of arrival, so answers can't hold prompts up either.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from inference.engine.sequence import Sequence


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

    max_running: most requests taken out of the queue at a time. chunk_tokens: most prompt tokens per step; 0 computes
    one whole prompt per step.
    """

    def __init__(self, max_running: int, chunk_tokens: int) -> None:
        self._max_running = max_running
        self._chunk_tokens = chunk_tokens
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget `sequence`, wherever it is."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def plan(self) -> list[Chunk]:
        """Chunks of the next step, those of running answers first; empty when there is nothing to do."""
        while self.waiting and len(self.running) < self._max_running:
            self.running.append(self.waiting.popleft())
        answers = [Chunk(s, s.computed, s.computed + 1) for s in self.running if not s.reading]
        return answers + self._prompt_chunks([s for s in self.running if s.reading])

    def _prompt_chunks(self, reading: list[Sequence]) -> list[Chunk]:
        if self._chunk_tokens == 0:
            return [Chunk(s, s.computed, s.prompt_length) for s in reading[:1]]
        chunks: list[Chunk] = []
        budget = self._chunk_tokens
        for sequence in reading:
            if budget == 0:
                break
            length = min(budget, sequence.unread)
            chunks.append(Chunk(sequence, sequence.computed, sequence.computed + length))
            budget -= length
        return chunks
