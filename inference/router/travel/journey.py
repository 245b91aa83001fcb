"""One request on its way: what was asked, what it has tried, and what of the answer is there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from inference.contracts.generation import Finished, ReserveRequest, Ticket, TokenDelta, WorkerTimings
from inference.contracts.prompts import Prompt, TokenPrompt
from inference.contracts.routing import DeploymentRoute
from inference.contracts.sampling import Sampling
from inference.contracts.states import FinishReason
from inference.router.admission.fair_order import Claim
from inference.router.admission.fair_queue import Patience
from inference.router.choosing.place import Place
from inference.router.choosing.prompt_chain import PromptChain
from inference.router.choosing.standing import WorkerKey
from inference.router.travel.outlet import Lane
from inference.router.travel.record import RequestRecord
from inference.router.travel.tried import Tried


@dataclass(frozen=True, slots=True)
class Call:
    """One prompt of what a client asked, in the workers' words. clip: the client named no limit of its own. echo,
    priority, cache_salt: as in `ReserveRequest`.

    key_id, rank: of the serving key and its class, for the queue (`admission/classes.py`). ttft_deadline_s: when the
    client wants the first token at the latest; None: whenever.
    """

    request_id: str
    deployment: str
    prompt: Prompt
    sampling: Sampling
    clip: bool
    echo: bool = False
    priority: int = 0
    cache_salt: str = ""
    key_id: str = ""
    rank: int = 0
    ttft_deadline_s: float | None = None


@dataclass(slots=True)
class Written:
    """The answer so far, where there is one only. finish: why it ended, once it has."""

    token_ids: list[int] = field(default_factory=list)
    finish: FinishReason | None = None

    def add(self, deltas: Sequence[TokenDelta]) -> None:
        for delta in deltas:
            self.token_ids += delta.token_ids
            if delta.finish is not None:
                self.finish = delta.finish


@dataclass(slots=True)
class Journey:
    """place: its share of the workers' load. ticket: the first, which told the prompt's tokens. answered: how much of
    the answer was written before the attempt under way, which goes on with it; 0: it begins. recompute_on: the
    answering worker that is to read the prompt itself, since a hand-off to it failed."""

    call: Call
    chain: PromptChain
    lane: Lane
    record: RequestRecord
    place: Place
    tried: Tried = field(default_factory=Tried)
    written: Written = field(default_factory=Written)
    patience: Patience = field(default_factory=Patience)
    ticket: Ticket | None = None
    answered: int = 0
    recompute_on: WorkerKey | None = None
    chosen: tuple[WorkerKey, ...] = ()

    def time_left_s(self) -> float | None:
        """Until the client wants the first token."""
        deadline_s = self.call.ttft_deadline_s
        return None if deadline_s is None else self.record.watch.received + deadline_s - time.perf_counter()

    @property
    def claim(self) -> Claim:
        tokens = self.chain.octets // 4 + self.call.sampling.n * self.call.sampling.max_tokens
        return Claim(self.call.key_id, self.call.rank, tokens)

    @property
    def tokens_used(self) -> tuple[int, int]:
        """Of the prompt, and of the answers by now. A prompt counts once a worker has read its tokens; what an attempt
        wrote that came to nothing does not."""
        return (0, 0) if self.ticket is None else (len(self.ticket.token_ids), len(self.written.token_ids))

    @property
    def can_go_on(self) -> bool:
        """Whether another worker can go on with what is written: with one answer of plain text."""
        sampling = self.call.sampling
        return bool(self.written.token_ids) and sampling.n == 1 and sampling.grammar is None

    @property
    def goes_on(self) -> bool:
        """Whether the attempt under way goes on with an answer."""
        return self.answered > 0

    def begin_attempt(self) -> None:
        """Go on with what is written where that can be; else forget it, since nothing of it has reached the client."""
        if self.can_go_on:
            self.answered = len(self.written.token_ids)
            self.record.goes_on()
            return
        self.lane.restart()
        self.written, self.ticket, self.answered = Written(), None, 0
        self.record.begin_attempt()

    def begun(self, ticket: Ticket) -> None:
        """The first ticket of an answer came."""
        self.ticket = ticket
        self.record.reserved()
        if ticket.prompt_text is not None:
            self.lane.echo(ticket.prompt_text)
        if ticket.tool_format is not None:
            self.lane.read_calls(ticket.tool_format)

    def reservation(self, deployment: DeploymentRoute) -> ReserveRequest:
        """What an answering worker is asked for: the whole answer, or the rest of it."""
        call, ticket = self.call, self.ticket
        request = ReserveRequest(
            request_id=call.request_id,
            model_name=deployment.model_name,
            prompt=call.prompt,
            sampling=call.sampling,
            clip_max_tokens=call.clip,
            echo=call.echo,
            priority=call.priority,
            cache_salt=call.cache_salt,
            context_length=deployment.context_length,
        )
        if ticket is None or not self.goes_on:
            return request
        so_far = self.written.token_ids
        return msgspec.structs.replace(
            request,
            prompt=TokenPrompt(token_ids=(*ticket.token_ids, *so_far)),
            sampling=msgspec.structs.replace(call.sampling, max_tokens=ticket.max_tokens, answered=len(so_far)),
            clip_max_tokens=False,
            echo=False,
            context_length=None,
        )

    def whole(self, finished: Finished) -> Finished:
        """The end of the last part as the end of the whole answer."""
        if not self.goes_on or self.ticket is None:
            return finished
        handoff = self.record.handoff
        return msgspec.structs.replace(
            finished,
            prompt_tokens=len(self.ticket.token_ids),
            completion_tokens=finished.completion_tokens + self.answered,
            cached_tokens=self.ticket.cached_tokens if handoff is None else handoff.cached_tokens,
        )

    def already_whole(self) -> Finished | None:
        """The end of an answer of which all was written before its worker was lost; None where more is to come."""
        if self.ticket is None or self.written.finish is None or self.call.sampling.n > 1:
            return None
        return Finished(
            reason=self.written.finish,
            text="",
            prompt_tokens=len(self.ticket.token_ids),
            cached_tokens=self.ticket.cached_tokens,
            completion_tokens=len(self.written.token_ids),
            timings=WorkerTimings(),
        )
