"""Requests as OpenAI's clients send them, checked and put into Tandem's words.

A field that Tandem does not know and that can't change the answer's meaning is ignored. One that would change it and is
not offered is refused by name, so that nobody gets a different answer than he asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec

from inference.contracts.prompts import ChatPrompt, Prompt, TextPrompt
from inference.contracts.sampling import Sampling
from inference.router.errors import bad_request
from inference.router.openai.body import read_body
from inference.router.openai.messages import MessageBody, read_messages
from inference.router.openai.prompts import prompt_schema, read_prompts
from inference.router.openai.sampling import Biases, Count, Integer, ResponseFormat, alternatives, read_sampling
from inference.router.openai.tools import ChoiceBody, ToolBody, ToolUse, read_tools

MAX_PROMPTS = 64

#: Fields that are not offered, with the values that ask for nothing (besides null).
_NOT_OFFERED: dict[str, tuple[object, ...]] = {
    "suffix": ("",),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "use_beam_search": (False,),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "prompt_logprobs": (),
    "spaces_between_special_tokens": (True,),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "length_penalty": (1.0,),
    "logits_processors": ([],),
    "include_stop_str_in_output": (False,),
    "truncate_prompt_tokens": (),
    "prompt_embeds": (),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
}
_NOT_OFFERED_IN_CHAT = _NOT_OFFERED | {
    "echo": (False,),
    "reasoning_effort": ("none",),
    "web_search_options": (),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "documents": ([],),
}
_NOT_OFFERED_IN_COMPLETIONS = _NOT_OFFERED | {"tools": ([],), "tool_choice": ("none", "auto")}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, of one prompt or several. max_tokens: the client's own limit, in field `limit`; None: it named none,
    and `sampling.max_tokens` is unset (0) until the deployment's default is known. seeded: the client named the seed.
    echo: every answer begins with its prompt. priority, cache_salt: as in `ReserveRequest`. tools: what may be
    called."""

    model: str
    prompts: tuple[Prompt, ...]
    sampling: Sampling
    seeded: bool
    max_tokens: int | None
    limit: str
    stream: bool
    include_usage: bool
    echo: bool = False
    priority: int = 0
    cache_salt: str = ""
    tools: ToolUse | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Body(msgspec.Struct, kw_only=True):
    """What both endpoints share."""

    model: str
    max_tokens: Count | None = None
    n: Count | None = None
    best_of: Count | None = None
    min_tokens: Count | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: Count | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Biases | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    response_format: ResponseFormat | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    ignore_eos: bool | None = None
    priority: Integer | None = None
    cache_salt: str | None = None
    skip_special_tokens: bool | None = None


class ChatBody(_Body, kw_only=True):
    messages: list[MessageBody]
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Count | None = None
    tools: list[ToolBody] | None = None
    tool_choice: str | ChoiceBody | None = None
    parallel_tool_calls: bool | None = None


class CompletionBody(_Body, kw_only=True):
    prompt: Annotated[Any, msgspec.Meta(extra_json_schema=prompt_schema(MAX_PROMPTS))]
    logprobs: Count | None = None
    echo: bool | None = None
    add_special_tokens: bool | None = None


def read_chat(body: bytes) -> Asked:
    """A body of POST /v1/chat/completions.

    Raises:
        ApiError: 400 with the field at fault.
    """
    chat = read_body(body, ChatBody, _NOT_OFFERED_IN_CHAT)
    tools = read_tools(chat.tools, chat.tool_choice, chat.parallel_tool_calls)
    prompt = ChatPrompt(messages=read_messages(chat.messages), tools=tools.tools if tools is not None else ())
    if chat.max_tokens is not None and chat.max_completion_tokens not in (None, chat.max_tokens):
        raise bad_request("max_tokens and max_completion_tokens name different limits.", "max_completion_tokens")
    limit = "max_completion_tokens" if chat.max_tokens is None else "max_tokens"
    return _asked(chat, (prompt,), getattr(chat, limit), limit, _chat_logprobs(chat), tools)


def read_completion(body: bytes) -> Asked:
    """A body of POST /v1/completions.

    Raises:
        ApiError: 400 with the field at fault.
    """
    completion = read_body(body, CompletionBody, _NOT_OFFERED_IN_COMPLETIONS)
    logprobs = None if completion.logprobs is None else alternatives("logprobs", completion.logprobs)
    if completion.echo and logprobs is not None:
        raise bad_request(
            "echo together with logprobs is not supported here: log-probabilities are told of answers only.",
            "echo",
            "unsupported_parameter",
        )
    asked = _asked(completion, _prompts(completion), completion.max_tokens, "max_tokens", logprobs)
    return replace(asked, echo=bool(completion.echo))


def _chat_logprobs(chat: ChatBody) -> int | None:
    if chat.logprobs:
        return alternatives("top_logprobs", chat.top_logprobs or 0)
    if chat.top_logprobs:
        raise bad_request("top_logprobs needs logprobs to be true.", "top_logprobs")
    return None


def _prompts(body: CompletionBody) -> tuple[Prompt, ...]:
    """One prompt, or a list of them."""
    prompts = read_prompts(body.prompt, "prompt", MAX_PROMPTS)
    if body.add_special_tokens is not False:
        return prompts
    return tuple(
        msgspec.structs.replace(each, special_tokens=False) if isinstance(each, TextPrompt) else each
        for each in prompts
    )


def _asked(
    body: _Body,
    prompts: tuple[Prompt, ...],
    max_tokens: int | None,
    limit: str,
    logprobs: int | None,
    tools: ToolUse | None = None,
) -> Asked:
    if max_tokens is not None and max_tokens < 1:
        raise bad_request(f"{limit} is {max_tokens}: it must be at least 1.", limit)
    stream = bool(body.stream)
    if body.stream_options is not None and not stream:
        raise bad_request("stream_options needs stream to be true.", "stream_options")
    return Asked(
        model=body.model,
        prompts=prompts,
        sampling=read_sampling(body, max_tokens, logprobs, tools),
        seeded=body.seed is not None,
        max_tokens=max_tokens,
        limit=limit,
        stream=stream,
        include_usage=body.stream_options is not None and bool(body.stream_options.include_usage),
        priority=body.priority or 0,
        cache_salt=body.cache_salt or "",
        tools=tools,
    )
