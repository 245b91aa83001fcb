"""Requests sent straight to the stub workers, as the routers send them: what a first token takes without a router."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Protocol

from inference.contracts import auth, codec, names
from inference.contracts.generation import GenerateRequest, PrefillRequest, ReserveRequest, Ticket
from inference.contracts.prompts import ChatMessage, ChatPrompt
from inference.contracts.sampling import Sampling
from inference.contracts.states import PrefillPath, Role
from tests.bench.router.answers import TOKENS
from tests.bench.router.fronts import SECRET, TANDEM, Front
from tests.bench.router.load import Callers, chat_request, post
from tests.bench.router.stub_tandem import FINGERPRINT, TRANSFER

_AUTHORIZATION = auth.bearer(SECRET, auth.PURPOSE_WORKER_HTTP)
_SAMPLING = Sampling(max_tokens=TOKENS, temperature=0.7, seed=1)
_PROMPT = ChatPrompt(messages=(ChatMessage(role="user", content="what does a prefill worker do? " * 16),))


class Straight(Protocol):
    """Asks the workers of one router."""

    async def one(self, number: int) -> float:
        """Answer one request; seconds to its first token."""

    def close(self) -> None:
        """Close all connections."""


def straight(front: Front) -> Straight:
    """To the workers of `front`."""
    return StraightToTandem(front) if front.name == TANDEM else StraightToVllm(front)


class StraightToTandem:
    """Reserve, then prefill and generate side by side."""

    def __init__(self, front: Front) -> None:
        self._prefill = [Callers(port) for port in front.ports[Role.PREFILL]]
        self._decode = [Callers(port) for port in front.ports[Role.DECODE]]

    async def one(self, number: int) -> float:
        began, request_id = time.perf_counter(), f"straight-{number}"
        answering, reading = self._decode[number % len(self._decode)], self._prefill[number % len(self._prefill)]
        ask = ReserveRequest(request_id=request_id, model_name="paced", prompt=_PROMPT, sampling=_SAMPLING)
        async with answering.one() as caller:
            ticket = codec.decode(await caller.ask(_call(answering.port, names.WORKER_RESERVE, ask)), Ticket)
        read = PrefillRequest(
            request_id=request_id,
            ticket_id=ticket.ticket_id,
            token_ids=ticket.token_ids,
            sampling=_SAMPLING,
            fingerprint=FINGERPRINT,
            target=TRANSFER,
        )
        write = GenerateRequest(request_id=request_id, ticket_id=ticket.ticket_id, path=PrefillPath.HANDOFF)
        async with answering.one() as writer, reading.one() as reader:
            answer = asyncio.ensure_future(writer.stream(_call(answering.port, names.WORKER_GENERATE, write)))
            sent = time.perf_counter()
            first = await reader.stream(_call(reading.port, names.WORKER_PREFILL, read))
            await answer
        assert first.first_s is not None
        return sent - began + first.first_s

    def close(self) -> None:
        for callers in (*self._prefill, *self._decode):
            callers.close()


class StraightToVllm:
    """Prefill, then decode."""

    def __init__(self, front: Front) -> None:
        self._servers = [Callers(port) for port in front.ports["vllm"]]

    async def one(self, number: int) -> float:
        began, half = time.perf_counter(), len(self._servers) // 2
        reading, answering = self._servers[number % half], self._servers[half + number % half]
        streamed = chat_request(answering.port, "paced", number, "")
        async with reading.one() as reader:
            whole = chat_request(reading.port, "paced", number, "").replace(b'"stream":true', b'"stream":null')
            params = json.loads(await reader.ask(whole))["kv_transfer_params"]
        assert params["do_remote_prefill"]
        async with answering.one() as writer:
            sent = time.perf_counter()
            seen = await writer.stream(streamed)
        assert seen.first_s is not None
        return sent - began + seen.first_s

    def close(self) -> None:
        for callers in self._servers:
            callers.close()


def _call(port: int, path: str, message: object) -> bytes:
    return post(port, path, codec.encode(message), _AUTHORIZATION)
