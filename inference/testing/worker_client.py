"""Calls workers as the router does, step by step, for tests of workers."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial

import aiohttp

from inference.contracts import names
from inference.contracts.auth import PURPOSE_WORKER_HTTP, bearer
from inference.contracts.codec import decode, encode
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import (
    Finished,
    GenerateRequest,
    HandoffDone,
    PrefillRequest,
    ReserveRequest,
    StreamEvent,
    StreamFailed,
    Ticket,
    TokenDelta,
    WorkerError,
)
from inference.contracts.prompts import Prompt, TextPrompt
from inference.contracts.reports import Address
from inference.contracts.sampling import Sampling
from inference.contracts.states import PrefillPath, Role
from inference.contracts.worker import PairReport, PreflightOrder, RoleOrder, WindowBatch, WorkerStatus


@dataclass
class Answer:
    """What a stream brought. end: its last event. deltas: its tokens as they came, of all answers."""

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    end: StreamEvent | None = None
    deltas: list[TokenDelta] = field(default_factory=list)

    def add(self, event: StreamEvent) -> None:
        match event:
            case TokenDelta(token_ids=token_ids, text=text):
                self.token_ids.extend(token_ids)
                self.text += text
                self.deltas.append(event)
            case Finished(text=text):
                self.text += text
                self.end = event
            case _:
                self.end = event


class WorkerClient:
    """One session for calls to any worker. Refusals are raised as `TandemError`."""

    def __init__(self, secret: str, tls: ssl.SSLContext | None = None) -> None:
        self._url = partial(url, scheme="http" if tls is None else "https")
        self.session = aiohttp.ClientSession(
            headers={"Authorization": bearer(secret, PURPOSE_WORKER_HTTP)},
            connector=aiohttp.TCPConnector(ssl=tls or True),
        )

    async def __aenter__(self) -> WorkerClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def reserve(
        self,
        http: Address,
        prompt: Prompt | str,
        sampling: Sampling,
        *,
        request_id: str = "req-1",
        model_name: str = "stub",
        clip_max_tokens: bool = False,
        echo: bool = False,
        cache_salt: str = "",
    ) -> Ticket:
        order = ReserveRequest(
            request_id=request_id,
            model_name=model_name,
            prompt=TextPrompt(text=prompt) if isinstance(prompt, str) else prompt,
            sampling=sampling,
            clip_max_tokens=clip_max_tokens,
            echo=echo,
            cache_salt=cache_salt,
        )
        async with self.session.post(self._url(http, names.WORKER_RESERVE), data=encode(order)) as response:
            await raise_refusal(response)
            return decode(await response.read(), Ticket)

    async def prefill(self, http: Address, ticket: Ticket, sampling: Sampling) -> AsyncIterator[StreamEvent]:
        if ticket.transfer is None:
            raise ValueError("the ticket's worker takes no hand-offs")
        order = PrefillRequest(
            request_id=ticket.request_id,
            ticket_id=ticket.ticket_id,
            token_ids=ticket.token_ids,
            sampling=sampling,
            fingerprint=ticket.fingerprint,
            target=ticket.transfer,
        )
        async for event in self.stream(http, names.WORKER_PREFILL, order):
            yield event

    async def generate(self, http: Address, ticket: Ticket, path: PrefillPath) -> AsyncIterator[StreamEvent]:
        order = GenerateRequest(request_id=ticket.request_id, ticket_id=ticket.ticket_id, path=path)
        async for event in self.stream(http, names.WORKER_GENERATE, order):
            yield event

    async def stream(self, http: Address, path: str, order: object) -> AsyncIterator[StreamEvent]:
        async with self.session.post(self._url(http, path), data=encode(order)) as response:
            await raise_refusal(response)
            async for line in response.content:
                yield decode(line, StreamEvent)  # type: ignore[arg-type]

    async def release(self, http: Address, ticket_id: str) -> None:
        async with self.session.delete(self._url(http, f"{names.WORKER_TICKETS}/{ticket_id}")) as response:
            await raise_refusal(response)

    async def status(self, http: Address) -> WorkerStatus:
        async with self.session.get(self._url(http, names.WORKER_STATUS)) as response:
            await raise_refusal(response)
            return decode(await response.read(), WorkerStatus)

    async def drain(self, http: Address, *, undo: bool = False) -> WorkerStatus:
        path = names.WORKER_UNDRAIN if undo else names.WORKER_DRAIN
        async with self.session.post(self._url(http, path)) as response:
            await raise_refusal(response)
            return decode(await response.read(), WorkerStatus)

    async def switch(self, http: Address, role: Role, pool_id: str | None = None) -> WorkerStatus:
        order = encode(RoleOrder(role=role, pool_id=pool_id))
        async with self.session.post(self._url(http, names.WORKER_ROLE), data=order) as response:
            await raise_refusal(response)
            return decode(await response.read(), WorkerStatus)

    async def preflight(self, http: Address, target: Address) -> PairReport:
        order = encode(PreflightOrder(target=target))
        async with self.session.post(self._url(http, names.WORKER_PREFLIGHT), data=order) as response:
            await raise_refusal(response)
            return decode(await response.read(), PairReport)

    async def windows(self, http: Address) -> WindowBatch:
        async with self.session.get(self._url(http, names.WORKER_WINDOWS)) as response:
            await raise_refusal(response)
            return decode(await response.read(), WindowBatch)

    async def metrics(self, http: Address) -> str:
        async with self.session.get(self._url(http, names.METRICS)) as response:
            await raise_refusal(response)
            return await response.text()

    async def answer_here(self, http: Address, prompt: Prompt | str, sampling: Sampling) -> Answer:
        """The whole answer of one worker that reads the prompt itself."""
        ticket = await self.reserve(http, prompt, sampling)
        return await collect(self.generate(http, ticket, PrefillPath.LOCAL))

    async def answer_by_handoff(
        self, prefill: Address, decode_at: Address, prompt: Prompt | str, sampling: Sampling
    ) -> Answer:
        """The whole answer of a pair: first token from prefill, the rest from decode."""
        ticket = await self.reserve(decode_at, prompt, sampling)
        first = await collect(self.prefill(prefill, ticket, sampling))
        if not isinstance(first.end, HandoffDone):
            return first
        rest = await collect(self.generate(decode_at, ticket, PrefillPath.HANDOFF))
        return Answer(first.token_ids + rest.token_ids, first.text + rest.text, rest.end, first.deltas + rest.deltas)


async def collect(events: AsyncIterator[StreamEvent]) -> Answer:
    """Read a stream to its end; a failed one is returned with `end` set to `StreamFailed`."""
    answer = Answer()
    async for event in events:
        answer.add(event)
    return answer


def url(http: Address, path: str, scheme: str = "http") -> str:
    return f"{scheme}://{http.host}:{http.port}{path}"


async def raise_refusal(response: aiohttp.ClientResponse) -> None:
    if response.status >= 400:
        error = decode(await response.read(), WorkerError)
        raise TandemError(ErrorCode(error.code), error.message, error.param)


def failure(answer: Answer) -> StreamFailed:
    """The failure that ended `answer`; anything else is a mistake of the test."""
    if not isinstance(answer.end, StreamFailed):
        raise AssertionError(f"the stream ended with {answer.end}")
    return answer.end
