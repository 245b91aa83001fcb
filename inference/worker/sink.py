"""Carries what an engine tells of one request from its thread to the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import TokenDelta
from inference.engine.interface import Progress, Token
from inference.transfer.base import Computed


class RequestSink:
    """A `Sink`. Times are monotonic seconds, taken on the engine's thread.

    asked_at: when the request came to the worker. computed: progress for a sender; a failure ends it too.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tokens: asyncio.Queue[Token | TandemError] = asyncio.Queue()
        self.computed: Computed = asyncio.Queue()
        self.started_at: float | None = None
        self.first_token_at: float | None = None

    def started(self) -> None:
        self.started_at = time.monotonic()

    def token(self, token: Token) -> None:
        if self.first_token_at is None:
            self.first_token_at = time.monotonic()
        self._hand_over(self._tokens.put_nowait, token)

    def progress(self, progress: Progress) -> None:
        self._hand_over(self.computed.put_nowait, progress)

    def failed(self, error: Exception) -> None:
        self._hand_over(self.end, error)

    def end(self, error: Exception) -> None:
        """End the request with `error`; on the event loop only."""
        self._tokens.put_nowait(typed(error))
        self.computed.put_nowait(typed(error))

    async def next_token(self) -> Token:
        """Raises `TandemError` when the request failed instead."""
        item = await self._tokens.get()
        if isinstance(item, TandemError):
            raise item
        return item

    def _hand_over(self, put: Callable[..., None], item: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the worker is going down
            self._loop.call_soon_threadsafe(put, item)


def delta(token: Token) -> TokenDelta:
    """`token` as an event of a stream."""
    return TokenDelta(
        token_ids=(token.token_id,),
        text=token.text,
        answer=token.answer,
        finish=token.finish,
        logprobs=() if token.logprob is None else (token.logprob,),
    )


def typed(error: Exception) -> TandemError:
    """What an engine raised, with a code."""
    if isinstance(error, TandemError):
        return error
    return TandemError(ErrorCode.ENGINE_FAILED, f"{type(error).__name__}: {error}")


def between(start: float | None, end: float | None) -> float | None:
    """Seconds from `start` to `end`; None when one of them did not happen."""
    return None if start is None or end is None else max(0.0, end - start)
