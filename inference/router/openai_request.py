"""Requests as OpenAI's clients send them, checked and put into Tandem's words.

A field that Tandem does not know and that can't change the answer's meaning is ignored. One that would change it and is
not offered is refused by name, so that nobody gets a different answer than he asked for.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec

from inference.contracts.generation import ChatMessage, ChatPrompt, Prompt, Sampling, TextPrompt, TokenPrompt
from inference.router.errors import ApiError, bad_request

MAX_STOPS = 4
_SEED_BITS = 63

#: Counts and token ids that workers can read; no model comes near.
_LARGEST = 2**31 - 1
_Count = Annotated[int, msgspec.Meta(le=_LARGEST)]
_Integer = Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]

#: Fields that are not offered, with the values that ask for nothing (besides null).
_NOT_OFFERED: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "min_tokens": (0,),
    "response_format": ({"type": "text"},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
}

#: What chat templates know. "developer" is the newer name of "system".
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}

_AT_FIELD = re.compile(r" - at `\$\.?(?P<field>[^`]*)`$")
_MISSING_FIELD = re.compile(r"missing required field `(?P<field>[^`]*)`")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. max_tokens: the client's own limit, None when it named none; `sampling.max_tokens` is then unset
    (0) until the deployment's default is known. priority, cache_salt: as in `ReserveRequest`."""

    model: str
    prompt: Prompt
    sampling: Sampling
    max_tokens: int | None
    stream: bool
    include_usage: bool
    priority: int = 0
    cache_salt: str = ""


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Body(msgspec.Struct, kw_only=True):
    """What both endpoints share."""

    model: str
    max_tokens: _Count | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: _Count | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    ignore_eos: bool | None = None
    priority: _Integer | None = None
    cache_salt: str | None = None


class _ContentPart(msgspec.Struct):
    type: str
    text: str | None = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[_ContentPart] | None = None
    tool_calls: Any = None
    function_call: Any = None


class _ChatBody(_Body, kw_only=True):
    messages: list[_Message]
    max_completion_tokens: _Count | None = None


class _CompletionBody(_Body, kw_only=True):
    prompt: Any


def read_chat(body: bytes) -> Asked:
    """A body of POST /v1/chat/completions.

    Raises:
        ApiError: 400 with the field at fault.
    """
    chat = _read(body, _ChatBody)
    if not chat.messages:
        raise bad_request("messages must hold at least one message.", "messages")
    messages = tuple(_message(index, message) for index, message in enumerate(chat.messages))
    if chat.max_tokens is not None and chat.max_completion_tokens not in (None, chat.max_tokens):
        raise bad_request("max_tokens and max_completion_tokens name different limits.", "max_completion_tokens")
    limit = "max_completion_tokens" if chat.max_tokens is None else "max_tokens"
    return _asked(chat, ChatPrompt(messages=messages), getattr(chat, limit), limit)


def read_completion(body: bytes) -> Asked:
    """A body of POST /v1/completions.

    Raises:
        ApiError: 400 with the field at fault.
    """
    completion = _read(body, _CompletionBody)
    return _asked(completion, _completion_prompt(completion.prompt), completion.max_tokens, "max_tokens")


B = TypeVar("B", bound=_Body)


def _read(body: bytes, kind: type[B]) -> B:
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"The body is not valid JSON: {error}.") from error
    except RecursionError:
        raise bad_request("The body is nested too deeply.") from None
    if not isinstance(fields, dict):
        raise bad_request(f"The body must be a JSON object, not {_kind(fields)}.")
    for name, neutral in _NOT_OFFERED.items():
        value = fields.get(name)
        if value is not None and value not in neutral:
            raise bad_request(f"{name} is not supported here.", name, "unsupported_parameter")
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from error


def _invalid(message: str) -> ApiError:
    missing = _MISSING_FIELD.search(message)
    at = _AT_FIELD.search(message)
    path = at["field"] if at else ""
    if missing:
        path = f"{path}.{missing['field']}" if path else missing["field"]
        return bad_request(f"{path} is missing.", path)
    return bad_request(f"{path or 'The body'}: {_AT_FIELD.sub('', message)}.", path or None)


def _message(index: int, message: _Message) -> ChatMessage:
    place = f"messages[{index}]"
    if message.tool_calls or message.function_call:
        raise bad_request("Tool calls are not supported here.", f"{place}.tool_calls", "unsupported_parameter")
    role = _ROLES.get(message.role)
    if role is None:
        raise bad_request(f"The role {message.role!r} is not one of {', '.join(_ROLES)}.", f"{place}.role")
    if message.content is None:
        raise bad_request(f"{place}.content is missing.", f"{place}.content")
    if isinstance(message.content, str):
        return ChatMessage(role=role, content=message.content)
    texts = []
    for position, part in enumerate(message.content):
        if part.type != "text" or part.text is None:
            where = f"{place}.content[{position}]"
            raise bad_request(f"{where}: only parts of type 'text' are supported here.", f"{where}.type")
        texts.append(part.text)
    return ChatMessage(role=role, content="".join(texts))


def _completion_prompt(prompt: object) -> Prompt:
    if isinstance(prompt, str):
        return TextPrompt(text=prompt)
    if not isinstance(prompt, list) or not prompt:
        raise bad_request(f"prompt must be a text or a list of token ids, not {_kind(prompt)}.", "prompt")
    if all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= _LARGEST for item in prompt):
        return TokenPrompt(token_ids=tuple(prompt))
    if len(prompt) == 1 and isinstance(prompt[0], str | list):
        return _completion_prompt(prompt[0])
    if all(isinstance(item, str | list) for item in prompt):
        raise bad_request("Several prompts in one request are not supported here: send one each.", "prompt")
    raise bad_request(f"prompt must be a text or a list of token ids from 0 to {_LARGEST}.", "prompt")


def _asked(body: _Body, prompt: Prompt, max_tokens: int | None, limit: str) -> Asked:
    if max_tokens is not None and max_tokens < 1:
        raise bad_request(f"{limit} is {max_tokens}: it must be at least 1.", limit)
    stream = bool(body.stream)
    if body.stream_options is not None and not stream:
        raise bad_request("stream_options needs stream to be true.", "stream_options")
    return Asked(
        model=body.model,
        prompt=prompt,
        sampling=_sampling(body, max_tokens),
        max_tokens=max_tokens,
        stream=stream,
        include_usage=body.stream_options is not None and bool(body.stream_options.include_usage),
        priority=body.priority or 0,
        cache_salt=body.cache_salt or "",
    )


def _sampling(body: _Body, max_tokens: int | None) -> Sampling:
    """The seed is fixed here, so that every worker of the request draws from one sequence."""
    temperature = _within("temperature", body.temperature, 1.0, 0.0, 2.0)
    top_p = _within("top_p", body.top_p, 1.0, 0.0, 1.0)
    if top_p == 0.0:
        raise bad_request("top_p is 0: it must be above 0.", "top_p")
    top_k = body.top_k or 0
    if top_k < -1:
        raise bad_request(f"top_k is {top_k}: it must be at least 1, or 0 for no restriction.", "top_k")
    return Sampling(
        max_tokens=max_tokens or 0,
        temperature=temperature,
        top_p=top_p,
        top_k=max(0, top_k),
        seed=secrets.randbits(_SEED_BITS) if body.seed is None else body.seed & (2**_SEED_BITS - 1),
        stop=_stops(body.stop),
        ignore_eos=bool(body.ignore_eos),
    )


def _within(name: str, value: float | None, default: float, low: float, high: float) -> float:
    if value is None:
        return default
    if not low <= value <= high:
        raise bad_request(f"{name} is {value:g}: it must be from {low:g} to {high:g}.", name)
    return value


def _stops(stop: str | list[str] | None) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(stops) > MAX_STOPS:
        raise bad_request(f"stop holds {len(stops)} texts: at most {MAX_STOPS} are allowed.", "stop")
    if "" in stops:
        raise bad_request("stop must not hold an empty text.", "stop")
    return stops


def _kind(value: object) -> str:
    names = {dict: "an object", list: "an empty list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
