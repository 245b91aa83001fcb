"""What is presumed of prompts before a worker has seen them, and what is learnt from workers about that: how many
tokens their bytes are, and who has KV of their beginnings."""

from __future__ import annotations

from collections.abc import Collection

from inference.contracts.generation import HandoffDone, Ticket
from inference.contracts.prompts import Prompt, TokenPrompt
from inference.router.choosing.prefix_index import PrefixIndex
from inference.router.choosing.prompt_chain import PromptChain, chain_of, octets_of
from inference.router.choosing.standing import WorkerKey

_TOKENS_PER_BYTE = 0.25
_LEARNS = 0.1  # what one prompt tells counts so much beside all before it


class PromptKnowledge:
    """most_blocks: of prompts, that are remembered."""

    def __init__(self, most_blocks: int) -> None:
        self._index = PrefixIndex(most_blocks)
        self._tokens_per_byte: dict[str, float] = {}
        self._keeps: dict[WorkerKey, float] = {}

    def chain(self, prompt: Prompt, salt: str) -> PromptChain:
        return chain_of(prompt, salt)

    def tokens(self, deployment: str, octets: int) -> int:
        """Of a prompt of so many bytes."""
        return int(octets * self._tokens_per_byte.get(deployment, _TOKENS_PER_BYTE)) + 1

    def estimate(self, deployment: str, prompt: Prompt) -> int:
        """Tokens of a prompt; exact where it is tokens already."""
        if isinstance(prompt, TokenPrompt):
            return len(prompt.token_ids)
        return self.tokens(deployment, octets_of(prompt))

    def held(self, deployment: str, chain: PromptChain) -> dict[WorkerKey, int]:
        """Tokens of the prompt that workers are presumed to have KV of. A worker that had less than was presumed before
        is believed less: it keeps nothing, or has too little room for what others need."""
        ratio = self._tokens_per_byte.get(deployment, _TOKENS_PER_BYTE)
        held = self._index.held(chain)
        return {worker: int(octets * ratio * self._keeps.get(worker, 1.0)) for worker, octets in held.items()}

    def ticket_came(self, deployment: str, chain: PromptChain, worker: WorkerKey, ticket: Ticket) -> None:
        """The answering worker has tokenised the prompt and says what it has of it."""
        tokens = len(ticket.token_ids)
        if chain.octets and tokens:
            known = self._tokens_per_byte.get(deployment)
            ratio = tokens / chain.octets
            self._tokens_per_byte[deployment] = ratio if known is None else known + _LEARNS * (ratio - known)
        self._told(chain, worker, ticket.cached_tokens, tokens)

    def handed_off(self, chain: PromptChain, worker: WorkerKey, done: HandoffDone, tokens: int) -> None:
        """The prefill worker says what it had of a prompt of so many tokens; now it has all of it."""
        self._told(chain, worker, done.cached_tokens, tokens)
        self._index.note(chain, worker)

    def was_read(self, chain: PromptChain, worker: WorkerKey) -> None:
        """The worker has KV of the whole prompt now."""
        self._index.note(chain, worker)

    def forget_all_but(self, workers: Collection[WorkerKey], deployments: Collection[str]) -> None:
        """Let go of what the others had and were like."""
        self._index.forget_all_but(workers)
        self._keeps = {worker: kept for worker, kept in self._keeps.items() if worker in workers}
        self._tokens_per_byte = {name: ratio for name, ratio in self._tokens_per_byte.items() if name in deployments}

    def _told(self, chain: PromptChain, worker: WorkerKey, cached_tokens: int, tokens: int) -> None:
        has = int(chain.octets * cached_tokens / tokens) if tokens else 0
        presumed = self._index.held(chain).get(worker, 0)
        if presumed:
            kept = self._keeps.get(worker, 1.0)
            self._keeps[worker] = kept + _LEARNS * ((2 * has >= presumed) - kept)  # blocks here and there differ
        self._index.note(chain, worker, has)
