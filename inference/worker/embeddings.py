"""Embeddings, by workers whose engine makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from inference.contracts.embeddings import Embedded, EmbedRequest
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import Prompt
from inference.engine.interface import Embedder
from inference.worker.state import WorkerState
from inference.worker.tokens import check_model, tokens_of


class EmbeddingService:
    """Works in every role. live: requests that are computed now."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self.live = 0

    async def embed(self, request: EmbedRequest) -> Embedded:
        """Raises `TandemError`: INVALID_REQUEST where the engine makes none; QUEUE_FULL, DRAINING or NOT_READY when it
        can't now; and as `tokens_of`, or CONTEXT_LENGTH_EXCEEDED, for inputs that it can't read."""
        check_model(request.model_name, self._state)
        self._state.check_open()
        engine = self._state.engine
        if not isinstance(engine, Embedder):
            raise TandemError(ErrorCode.INVALID_REQUEST, "the engine of this model makes no embeddings", "model")
        with self._place():
            inputs = [await self._tokens(number, each) for number, each in enumerate(request.inputs)]
            vectors = [await asyncio.to_thread(engine.embed, each) for each in inputs]
        return Embedded(
            vectors=tuple(vector.astype("<f4").tobytes() for vector in vectors), tokens=sum(map(len, inputs))
        )

    @contextmanager
    def _place(self) -> Iterator[None]:
        most = self._state.limits.max_embeddings
        if self.live >= most:
            raise TandemError(ErrorCode.QUEUE_FULL, f"{most} requests for embeddings are computed already")
        self.live += 1
        try:
            yield
        finally:
            self.live -= 1

    async def _tokens(self, number: int, prompt: Prompt) -> list[int]:
        try:
            token_ids = await tokens_of(prompt, self._state)
        except TandemError as error:
            raise TandemError(error.code, f"input[{number}]: {error.message}", "input") from error
        most = self._state.engine.info.context_length
        if len(token_ids) > most:
            text = f"input[{number}] has {len(token_ids)} tokens, and this model reads at most {most}"
            raise TandemError(ErrorCode.CONTEXT_LENGTH_EXCEEDED, text, "input")
        return token_ids
