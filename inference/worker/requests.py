"""Checks of what a request asks for, before anything is reserved or computed."""

from __future__ import annotations

import asyncio
import math

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import ReserveRequest
from inference.contracts.prompts import ChatPrompt, Prompt, TextPrompt
from inference.contracts.sampling import MAX_LOGPROBS, Sampling
from inference.contracts.tools import Tool, ToolCall
from inference.engine.interface import Engine, EngineInfo


async def check_sampling(sampling: Sampling, engine: Engine) -> None:
    """Raises `TandemError(INVALID_REQUEST)` naming the field that can't be used, here or by the engine."""
    for param, value, legal, wanted in (
        ("max_tokens", sampling.max_tokens, sampling.max_tokens >= 1, "at least 1"),
        ("n", sampling.n, sampling.n >= 1, "at least 1"),
        ("min_tokens", sampling.min_tokens, sampling.min_tokens >= 0, "0 or more"),
        ("temperature", sampling.temperature, 0 <= sampling.temperature < math.inf, "0 or more"),
        ("top_p", sampling.top_p, 0 < sampling.top_p <= 1, "above 0 and at most 1"),
        ("top_k", sampling.top_k, sampling.top_k >= 0, "0 or more"),
        ("min_p", sampling.min_p, 0 <= sampling.min_p <= 1, "from 0 to 1"),
        ("repetition_penalty", sampling.repetition_penalty, 0 < sampling.repetition_penalty < math.inf, "above 0"),
        ("presence_penalty", sampling.presence_penalty, math.isfinite(sampling.presence_penalty), "finite"),
        ("frequency_penalty", sampling.frequency_penalty, math.isfinite(sampling.frequency_penalty), "finite"),
        ("logit_bias", "out of range", all(map(math.isfinite, sampling.logit_bias.values())), "finite"),
        ("logprobs", sampling.logprobs, 0 <= (sampling.logprobs or 0) <= MAX_LOGPROBS, f"from 0 to {MAX_LOGPROBS}"),
        ("stop", sampling.stop, all(sampling.stop), "strings that are not empty"),
    ):
        if not legal:
            raise TandemError(ErrorCode.INVALID_REQUEST, f"{param} is {value!r}; it must be {wanted}", param)
    if sampling.grammar is None:
        engine.check(sampling)
    else:
        await asyncio.to_thread(engine.check, sampling)  # may compile it


def check_answered(sampling: Sampling, prompt_tokens: int) -> None:
    """Raises `TandemError(INVALID_REQUEST)` when the answer so far can't be what the prompt ends with."""
    if not sampling.answered:
        return
    if not 0 < sampling.answered < min(prompt_tokens, sampling.max_tokens) or sampling.n != 1:
        raise TandemError(
            ErrorCode.INVALID_REQUEST,
            f"{sampling.answered} tokens of one answer of {sampling.max_tokens} can't be the end of {prompt_tokens}",
            "answered",
        )


def answer_limit(request: ReserveRequest, prompt_tokens: int, info: EngineInfo) -> int:
    """How many tokens the answer may have: what was asked for, or what fits when that was only a default.

    Raises:
        TandemError: CONTEXT_LENGTH_EXCEEDED when the prompt, or prompt and answer, don't fit the model.
    """
    asked = request.sampling.max_tokens
    prompt_tokens -= request.sampling.answered
    context_length = min(info.context_length, request.context_length or info.context_length)
    wanted = prompt_tokens + (1 if request.clip_max_tokens else asked)
    if wanted > context_length:
        raise TandemError(
            ErrorCode.CONTEXT_LENGTH_EXCEEDED,
            f"this model's maximum context length is {context_length} tokens, but {wanted} were requested "
            f"({prompt_tokens} in the prompt, {wanted - prompt_tokens} for the answer)",
            "messages" if isinstance(request.prompt, ChatPrompt) else "prompt",
        )
    if not request.clip_max_tokens:
        return asked
    blocks_an_answer = info.kv_blocks_total // request.sampling.n
    room = min(context_length, blocks_an_answer * info.block_size) - prompt_tokens
    return max(1, min(asked, room))


def characters(prompt: Prompt) -> int:
    """Rough size of a prompt: what tokenising it costs."""
    if isinstance(prompt, ChatPrompt):
        told = sum(len(message.content) + sum(map(_size, message.tool_calls)) for message in prompt.messages)
        return told + sum(map(_size, prompt.tools))
    return len(prompt.text) if isinstance(prompt, TextPrompt) else len(prompt.token_ids)


def _size(tool: Tool | ToolCall) -> int:
    return len(tool.name) + len(tool.parameters if isinstance(tool, Tool) else tool.arguments)
