"""Workers that follow a script: what a router meets, event by event, with faults exactly where a test wants them.

The stub fleet behaves like real workers; these misbehave to order. Prompt tokens are the bytes of the text; the answer
is the script's pieces, one token each. "Transferred" KV is an entry in the shared `Fabric`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from aiohttp import web

from inference.contracts import auth, codec, names
from inference.contracts.errors import ErrorCode, http_status
from inference.contracts.generation import (
    Finished,
    GenerateRequest,
    HandoffDone,
    PrefillRequest,
    ReserveRequest,
    StreamFailed,
    Ticket,
    TokenDelta,
    WorkerError,
    WorkerTimings,
)
from inference.contracts.prompts import ChatPrompt, Prompt, TextPrompt
from inference.contracts.reports import Address
from inference.contracts.routing import WorkerRoute
from inference.contracts.sampling import SAMPLING_VERSION
from inference.contracts.states import FinishReason, PrefillPath, Role
from inference.contracts.tools import ToolFormat

T = TypeVar("T")

SECRET = "cluster-secret-of-the-tests"
PIECES = ("Zwei", " Räder", ",", " ein", " Rad", "tandem", " 🚲", "!")
QUEUE_S, PREFILL_S, HANDOFF_S, DECODE_WAIT_S = 0.001, 0.002, 0.003, 0.004


@dataclass
class Misstep:
    """What a worker does wrong in one call: at once, or `after` so many events, when it has worked on the next one.

    how: "refuse" (HTTP error with `code`), "fail" (StreamFailed with `code`), "crash" (the connection breaks), "hang"
    (no more events), "slow" (`seconds` before each event), "garbage" (a line that is no event), "end" (the stream ends
    without a closing event). seconds: also the time before a misstep that is made at once.
    """

    how: str
    code: ErrorCode = ErrorCode.ENGINE_FAILED
    after: int = 0
    seconds: float = 0.0
    times: int = 1_000_000
    message: str = "scripted"


@dataclass
class Fabric:
    """Where KV travels: tickets whose KV arrived (True) or will never (False)."""

    verdicts: dict[str, asyncio.Future[bool]] = field(default_factory=dict)
    bytes_received: int = 0

    def verdict(self, ticket_id: str) -> asyncio.Future[bool]:
        return self.verdicts.setdefault(ticket_id, asyncio.get_running_loop().create_future())

    def settle(self, ticket_id: str, arrived: bool) -> None:
        if not self.verdict(ticket_id).done():
            self.verdict(ticket_id).set_result(arrived)


@dataclass
class Held:
    request: ReserveRequest
    token_ids: tuple[int, ...]
    max_tokens: int


class ScriptedWorker:
    """tickets: open reservations. streams: calls whose handler runs now. calls: how often each path was called."""

    def __init__(
        self,
        worker_id: str,
        role: Role,
        fabric: Fabric,
        *,
        fingerprint: str = "fp",
        pieces: tuple[str, ...] = PIECES,
        context_length: int = 1000,
        cached_tokens: int = 0,
        kv_blocks_total: int | None = 100,
        revision: int = 1,
        sampling_version: int = SAMPLING_VERSION,
        tool_format: ToolFormat | None = ToolFormat.HERMES,
    ) -> None:
        self.tool_format = tool_format
        self.worker_id = worker_id
        self.role = role
        self.fabric = fabric
        self.fingerprint = fingerprint
        self.pieces = pieces
        self.context_length = context_length
        self.cached_tokens = cached_tokens
        self.kv_blocks_total = kv_blocks_total
        self.revision = revision
        self.sampling_version = sampling_version
        self.incarnation = "1"
        self.pace_s = 0.0
        self.handoff_s = HANDOFF_S
        self.tells_finish = False
        self.missteps: dict[str, Misstep] = {}
        self.tickets: dict[str, Held] = {}
        self.streams: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.request_ids: list[str] = []
        self.seeds: list[int] = []
        self.prefills: list[PrefillRequest] = []
        self.reservations: list[ReserveRequest] = []
        self._ids = itertools.count()
        self._runner: web.AppRunner | None = None
        self._port = 0

    async def start(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.add_routes(
            [
                web.post(names.WORKER_RESERVE, self._reserve),
                web.post(names.WORKER_PREFILL, self._prefill),
                web.post(names.WORKER_GENERATE, self._generate),
                web.delete(names.WORKER_TICKETS + "/{ticket}", self._release),
            ]
        )
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    @property
    def route(self) -> WorkerRoute:
        return WorkerRoute(
            worker_id=self.worker_id,
            incarnation=self.incarnation,
            pool_id=f"pool-{self.role}",
            node_id="node-1",
            role=self.role,
            revision=self.revision,
            http=Address(host="127.0.0.1", port=self._port),
            transfer=Address(host="127.0.0.1", port=9) if self.role is Role.DECODE else None,
            fingerprint=self.fingerprint,
            kv_blocks_total=self.kv_blocks_total,
        )

    async def _reserve(self, request: web.Request) -> web.StreamResponse:
        body = await self._enter(request, "reserve", ReserveRequest)
        self.reservations.append(body)
        misstep = self._misstep("reserve")
        if misstep is not None and misstep.how == "slow":
            await asyncio.sleep(misstep.seconds)
        elif misstep is not None:
            return await self._go_wrong(request, misstep, None)
        token_ids = tokens_of(body.prompt)
        max_tokens = body.sampling.max_tokens
        if body.clip_max_tokens:
            max_tokens = max(1, min(max_tokens, self.context_length - len(token_ids)))
        if len(token_ids) - body.sampling.answered + max_tokens > self.context_length:
            text = f"{len(token_ids)} + {max_tokens} tokens are more than {self.context_length}"
            return refusal(ErrorCode.CONTEXT_LENGTH_EXCEEDED, text, "messages")
        ticket_id = f"{self.worker_id}-t{next(self._ids)}"
        self.tickets[ticket_id] = Held(body, token_ids, max_tokens)
        return web.Response(
            body=codec.encode(
                Ticket(
                    ticket_id=ticket_id,
                    request_id=body.request_id,
                    worker_id=self.worker_id,
                    fingerprint=self.fingerprint,
                    token_ids=token_ids,
                    cached_tokens=min(self.cached_tokens, len(token_ids)),
                    max_tokens=max_tokens,
                    lease_s=10.0,
                    transfer=self.route.transfer,
                    sampling_version=self.sampling_version,
                    tool_format=self.tool_format,
                )
            )
        )

    async def _release(self, request: web.Request) -> web.StreamResponse:
        self.calls["release"] += 1
        if self.tickets.pop(request.match_info["ticket"], None) is None:
            return refusal(ErrorCode.TICKET_UNKNOWN, "no such ticket")
        return web.Response(status=204)

    async def _prefill(self, request: web.Request) -> web.StreamResponse:
        body = await self._enter(request, "prefill", PrefillRequest)
        self.prefills.append(body)
        if body.fingerprint != self.fingerprint:
            return refusal(ErrorCode.FINGERPRINT_MISMATCH, "not my model")
        return await self._stream(request, "prefill", self._read_prompt(body))

    async def _read_prompt(self, body: PrefillRequest) -> AsyncIterator[msgspec.Struct]:
        timings = WorkerTimings(queue_s=QUEUE_S, prefill_s=PREFILL_S, handoff_s=self.handoff_s)
        try:
            await asyncio.sleep(QUEUE_S + PREFILL_S)
            at, limit = body.sampling.answered, body.sampling.max_tokens
            yield TokenDelta(token_ids=(at,), text=self.pieces[at])
            if limit == at + 1 or len(self.pieces) == at + 1:
                reason = FinishReason.LENGTH if limit == at + 1 else FinishReason.STOP
                yield self._finished(reason, len(body.token_ids), 1, timings)
                return
            self.fabric.bytes_received += 100 * len(body.token_ids)
            self.fabric.settle(body.ticket_id, True)
            yield HandoffDone(
                tokens=len(body.token_ids),
                bytes=100 * len(body.token_ids),
                transfer_s=0.001,
                timings=timings,
                cached_tokens=min(self.cached_tokens, len(body.token_ids)),
            )
        finally:
            self.fabric.settle(body.ticket_id, False)

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await self._enter(request, "generate", GenerateRequest)
        held = self.tickets.get(body.ticket_id)
        if held is None:
            return refusal(ErrorCode.TICKET_UNKNOWN, "no such ticket")
        try:
            return await self._stream(request, "generate", self._write_answer(body, held))
        finally:
            self.tickets.pop(body.ticket_id, None)

    async def _write_answer(self, body: GenerateRequest, held: Held) -> AsyncIterator[msgspec.Struct]:
        first = answered = held.request.sampling.answered
        if body.path is PrefillPath.HANDOFF:
            first += 1
            if not await asyncio.shield(self.fabric.verdict(body.ticket_id)):
                yield StreamFailed(code=ErrorCode.TRANSFER_FAILED, message="the KV did not arrive")
                return
            timings = WorkerTimings(decode_wait_s=DECODE_WAIT_S)
        else:
            await asyncio.sleep(QUEUE_S + PREFILL_S)
            timings = WorkerTimings(queue_s=QUEUE_S, prefill_s=PREFILL_S)
        length = min(held.max_tokens, len(self.pieces))
        reason = FinishReason.LENGTH if length == held.max_tokens else FinishReason.STOP
        for index in range(first, length):
            if self.pace_s:
                await asyncio.sleep(self.pace_s)
            told = reason if self.tells_finish and index == length - 1 else None
            yield TokenDelta(token_ids=(index,), text=self.pieces[index], finish=told)
        yield self._finished(reason, len(held.token_ids), length - answered, timings)

    def _finished(self, reason: FinishReason, prompt: int, answer: int, timings: WorkerTimings) -> Finished:
        return Finished(
            reason=reason,
            text="",
            prompt_tokens=prompt,
            cached_tokens=min(self.cached_tokens, prompt),
            completion_tokens=answer,
            timings=timings,
        )

    async def _enter(self, request: web.Request, call: str, kind: type[T]) -> T:
        self.calls[call] += 1
        if not auth.is_bearer(request.headers.get("Authorization"), SECRET, auth.PURPOSE_WORKER_HTTP):
            raise web.HTTPUnauthorized
        body = codec.decode(await request.read(), kind)
        self.request_ids.append(body.request_id)
        return body

    async def _stream(
        self, request: web.Request, call: str, events: AsyncIterator[msgspec.Struct]
    ) -> web.StreamResponse:
        misstep = self._misstep(call)
        response: web.StreamResponse | None = None
        self.streams[call] += 1
        sent = 0
        try:
            if misstep is not None and misstep.after == 0 and misstep.how != "slow":
                await asyncio.sleep(misstep.seconds)
                return await self._go_wrong(request, misstep, await self._begin(request, misstep))
            async for event in events:
                if misstep is not None and misstep.how == "slow":
                    await asyncio.sleep(misstep.seconds)
                elif misstep is not None and sent >= misstep.after:
                    return await self._go_wrong(request, misstep, response)
                response = response or await self._begin(request, None)
                await response.write(codec.encode(event) + b"\n")
                sent += 1
            assert response is not None
            await response.write_eof()
            return response
        finally:
            await events.aclose()
            self.streams[call] -= 1

    async def _begin(self, request: web.Request, misstep: Misstep | None) -> web.StreamResponse | None:
        if misstep is not None and misstep.how == "refuse":
            return None
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        return response

    def _misstep(self, call: str) -> Misstep | None:
        misstep = self.missteps.get(call)
        if misstep is None or misstep.times <= 0:
            return None
        misstep.times -= 1
        return misstep

    async def _go_wrong(
        self, request: web.Request, misstep: Misstep, response: web.StreamResponse | None
    ) -> web.StreamResponse:
        if misstep.how == "refuse":
            return refusal(misstep.code, misstep.message, "max_tokens")
        if misstep.how == "crash":
            assert request.transport is not None
            request.transport.abort()
            raise asyncio.CancelledError
        if misstep.how == "hang":
            await asyncio.sleep(3600)
        assert response is not None
        if misstep.how == "fail":
            await response.write(codec.encode(StreamFailed(code=misstep.code, message=misstep.message)) + b"\n")
        if misstep.how == "garbage":
            await response.write(b'{"type":"token","token_ids":"none"}\n')
        await response.write_eof()
        return response


def tokens_of(prompt: Prompt) -> tuple[int, ...]:
    if isinstance(prompt, ChatPrompt):
        return tuple("".join(message.content for message in prompt.messages).encode())
    return tuple(prompt.text.encode()) if isinstance(prompt, TextPrompt) else prompt.token_ids


def refusal(code: ErrorCode, message: str, param: str | None = None) -> web.Response:
    return web.Response(
        status=http_status(code), body=codec.encode(WorkerError(code=code, message=message, param=param))
    )
