"""Texts to tokens and back, for the workers' own use and for clients who ask."""

from __future__ import annotations

import asyncio

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Detokenized, DetokenizeRequest, Tokenized, TokenizeRequest
from inference.contracts.prompts import Prompt
from inference.engine.interface import Engine
from inference.worker.requests import characters
from inference.worker.state import WorkerState


async def tokens_of(prompt: Prompt, state: WorkerState) -> list[int]:
    """The tokens of `prompt`; long ones are made in a thread, so that the event loop goes on.

    Raises:
        TandemError(INVALID_REQUEST): it can't be laid out: see `Engine.tokenize`.
    """
    if characters(prompt) <= state.limits.inline_chars:
        return state.engine.tokenize(prompt)
    return await asyncio.to_thread(state.engine.tokenize, prompt)


class TokenService:
    """Works in every role, and while draining: it needs no blocks and takes a moment."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """Raises `TandemError` for what no worker of this model could read, and while the model is not there."""
        engine = self._check(request.model_name)
        token_ids = await tokens_of(request.prompt, self._state)
        pieces = tuple(engine.detokenize([token]) for token in token_ids) if request.pieces else None
        return Tokenized(token_ids=tuple(token_ids), context_length=engine.info.context_length, pieces=pieces)

    async def detokenize(self, request: DetokenizeRequest) -> Detokenized:
        """Raises as `tokenize`."""
        engine = self._check(request.model_name)
        strange = next((token for token in request.token_ids if not 0 <= token < engine.info.vocab_size), None)
        if strange is not None:
            text = f"token id {strange} is not in 0..{engine.info.vocab_size - 1}"
            raise TandemError(ErrorCode.INVALID_REQUEST, text, "tokens")
        return Detokenized(text=engine.detokenize(request.token_ids))

    def _check(self, model_name: str) -> Engine:
        check_model(model_name, self._state)
        if not self._state.ready:
            raise TandemError(ErrorCode.NOT_READY, "the worker is still loading its model")
        return self._state.engine


def check_model(model_name: str, state: WorkerState) -> None:
    """Raises `TandemError(MODEL_NOT_FOUND)` when this worker serves another model."""
    if model_name != state.spec.model_name:
        raise TandemError(
            ErrorCode.MODEL_NOT_FOUND, f"this worker serves {state.spec.model_name!r}, not {model_name!r}", "model"
        )
