"""Messages between router and workers: reserve, prefill, generate, and the events of a token stream.

One request travels so (decode first):

    router ── ReserveRequest ──> decode worker            ── Ticket ──> router
    router ── PrefillRequest ──> prefill worker  (pushes KV to the ticket) ── TokenDelta, HandoffDone ──> router
    router ── GenerateRequest ─> decode worker            ── TokenDelta ..., Finished ──> router

Streams are lines of JSON, one `StreamEvent` each; the last one is always `Finished`, `HandoffDone` or `StreamFailed`.
Times between processes are durations in seconds, never clock readings.
"""

from __future__ import annotations

import msgspec

from inference.contracts.prompts import Prompt
from inference.contracts.reports import Address, WorkerLoad
from inference.contracts.sampling import SAMPLING_VERSION, Sampling
from inference.contracts.states import FinishReason, KVTransport, PrefillPath
from inference.contracts.tools import ToolFormat


class ReserveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks an answering worker to check the request and set KV blocks aside for all of it, or refuse.

    clip_max_tokens: the client named no limit, so `sampling.max_tokens` is only a default: when prompt and answer
    together would pass the context length (or could never fit the worker's KV), the worker lowers the limit to what
    fits instead of refusing. A prompt that leaves no room for one token is refused either way.
    echo: tell the prompt's text in the ticket. priority: of two requests that wait for the same engine the one with the
    smaller number goes first. cache_salt: KV is shared only between requests of the same salt.
    context_length: the smallest of the workers that may take part; None: the worker's own counts alone.
    """

    request_id: str
    model_name: str
    prompt: Prompt
    sampling: Sampling
    clip_max_tokens: bool = False
    echo: bool = False
    priority: int = 0
    cache_salt: str = ""
    context_length: int | None = None


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's promise to hold KV blocks for one request.

    token_ids: the prompt, tokenised once for both workers. cached_tokens: leading tokens whose KV is there already.
    max_tokens: the answer limit that counts, equal to the one asked for unless the worker was allowed to clip it; the
    router puts it into the sampling of the `PrefillRequest`.
    lease_s: the ticket ends so long after the last renewal; every arriving KV frame and an open generate call renew.
    transfer: where KV for it is received; None when the worker takes no hand-offs.
    prompt_text: the prompt as text, where it was asked for. sampling_version: what of `Sampling` and of prompts the
    worker knows; one that knows less than was asked for would answer something else. tool_format: how its model writes
    calls of tools; None where that is not known. load: what the worker has now, this ticket included.
    """

    ticket_id: str
    request_id: str
    worker_id: str
    fingerprint: str
    token_ids: tuple[int, ...]
    cached_tokens: int
    max_tokens: int
    lease_s: float
    transfer: Address | None
    prompt_text: str | None = None
    sampling_version: int = 1
    tool_format: ToolFormat | None = None
    load: WorkerLoad | None = None


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks any worker of a model for the tokens of a prompt. pieces: tell the text of each, too."""

    request_id: str
    model_name: str
    prompt: Prompt
    pieces: bool = False


class Tokenized(msgspec.Struct, frozen=True, kw_only=True):
    """pieces: the text of each token by itself; broken characters are replaced. sampling_version: as of a `Ticket`."""

    token_ids: tuple[int, ...]
    context_length: int
    pieces: tuple[str, ...] | None = None
    sampling_version: int = SAMPLING_VERSION


class DetokenizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks any worker of a model for the text of tokens, special ones included."""

    request_id: str
    model_name: str
    token_ids: tuple[int, ...]


class Detokenized(msgspec.Struct, frozen=True, kw_only=True):
    text: str


class PrefillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks a prefill worker to read the prompt, push its KV to `target` under `ticket_id`, and make the first token.

    target: from the routing table. fingerprint: the decode worker's; the prefill worker refuses a mismatch at once.
    priority, cache_salt: as in `ReserveRequest`.
    """

    request_id: str
    ticket_id: str
    token_ids: tuple[int, ...]
    sampling: Sampling
    fingerprint: str
    target: Address
    priority: int = 0
    cache_salt: str = ""


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks an answering worker to write the answer of a ticket.

    path LOCAL: read the prompt here. HANDOFF: wait for the committed KV and go on after the first token, whose text
    the prefill worker has already given.
    """

    request_id: str
    ticket_id: str
    path: PrefillPath


class TokenLogprob(msgspec.Struct, frozen=True, kw_only=True):
    """token: a token as text, broken characters replaced; `bytes` are what it really stands for. logprob: natural
    logarithm of its probability."""

    token: str
    logprob: float
    bytes: tuple[int, ...]


class ChosenLogprob(TokenLogprob, frozen=True, kw_only=True):
    """A token of the answer. top_logprobs: the likeliest tokens of its place, so many as were asked for."""

    top_logprobs: tuple[TokenLogprob, ...] = ()


class TokenDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="token"):
    """New tokens of one answer and the text that became certain with them (may be empty: a held back partial character
    or stop).

    answer: which of the request's answers, from 0. finish: set with the last tokens of that answer. logprobs: where
    asked for, one entry for each token but those that end the answer as end of sequence.
    """

    token_ids: tuple[int, ...]
    text: str
    answer: int = 0
    finish: FinishReason | None = None
    logprobs: tuple[ChosenLogprob, ...] = ()


class WorkerTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds spent in one worker; None where the stage did not happen there.

    queue_s: asked until first computed. prefill_s: first chunk until first token. handoff_s: first token until the
    receiver's verdict (the exposed part of the transfer). decode_wait_s: KV committed until first decode step.
    """

    queue_s: float | None = None
    prefill_s: float | None = None
    handoff_s: float | None = None
    decode_wait_s: float | None = None


class HandoffDone(msgspec.Struct, frozen=True, kw_only=True, tag="handoff"):
    """Closes a prefill stream whose KV was accepted by the decode worker.

    tokens: of the prompt, whose KV is there. bytes: what was sent of it, over `transport`. transfer_s: busy time of the
    sender. cached_tokens: of the prompt, those that the prefill worker had KV of and did not compute. load: what the
    worker has now, this request included.
    """

    tokens: int
    bytes: int
    transfer_s: float
    timings: WorkerTimings
    cached_tokens: int = 0
    transport: KVTransport = KVTransport.TCP  # the only one that workers of 0.2 know, and they do not say it
    load: WorkerLoad | None = None


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """Closes a stream whose answers are complete. text: what was held back until now.

    A prefill worker sends it instead of `HandoffDone` when the first token already ended every answer.
    completion_tokens: all tokens of the answers, the prefill worker's first ones included. reason: of the answer that
    ended last. cached_tokens: of the prompt, those that the worker had KV of and did not compute; 0 after a hand-off,
    where the prefill worker knows. load: what the worker has now, after this request.
    """

    reason: FinishReason
    text: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    timings: WorkerTimings
    load: WorkerLoad | None = None


class StreamFailed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """Closes a stream that cannot be completed. `code` is an `ErrorCode`."""

    code: str
    message: str


StreamEvent = TokenDelta | HandoffDone | Finished | StreamFailed


class WorkerError(msgspec.Struct, frozen=True, kw_only=True):
    """Body of every refused worker call. `code` is an `ErrorCode`; `param` names the field at fault."""

    code: str
    message: str
    param: str | None = None
