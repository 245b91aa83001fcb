"""The messages of a chat request, checked and put into Tandem's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from inference.contracts.prompts import ChatMessage
from inference.contracts.tools import ToolCall
from inference.router.errors import bad_request

#: What chat templates know. "developer" is the newer name of "system".
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


class _ContentPart(msgspec.Struct):
    type: str
    text: str | None = None


class _CalledFunction(msgspec.Struct):
    name: str
    arguments: str = ""


class _Call(msgspec.Struct):
    id: str
    function: _CalledFunction
    type: str = "function"


class MessageBody(msgspec.Struct):
    role: str
    content: str | list[_ContentPart] | None = None
    name: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    function_call: Any = None


def read_messages(messages: Sequence[MessageBody]) -> tuple[ChatMessage, ...]:
    """Raises `ApiError`: 400 with the field at fault."""
    if not messages:
        raise bad_request("messages must hold at least one message.", "messages")
    read: list[ChatMessage] = []
    called: dict[str, str] = {}  # id of a call so far -> name of its tool
    for index, message in enumerate(messages):
        read.append(_message(f"messages[{index}]", message, called))
        called.update((call.id, call.name) for call in read[-1].tool_calls)
    return tuple(read)


def _message(place: str, message: MessageBody, called: dict[str, str]) -> ChatMessage:
    if message.function_call:
        raise bad_request(
            "Calls of functions are made as tool_calls here.", f"{place}.function_call", "unsupported_parameter"
        )
    role = _ROLES.get(message.role)
    if role is None:
        raise bad_request(f"The role {message.role!r} is not one of {', '.join(_ROLES)}.", f"{place}.role")
    if message.tool_calls and role != "assistant":
        raise bad_request(f"{place}: only the assistant makes calls.", f"{place}.tool_calls")
    calls = tuple(_call(f"{place}.tool_calls[{number}]", call) for number, call in enumerate(message.tool_calls or ()))
    content = _content(place, message, optional=bool(calls))
    if role != "tool":
        return ChatMessage(role=role, content=content, tool_calls=calls)
    if not message.tool_call_id:
        raise bad_request(f"{place}.tool_call_id is missing.", f"{place}.tool_call_id")
    name = message.name or called.get(message.tool_call_id)
    return ChatMessage(role=role, content=content, tool_call_id=message.tool_call_id, name=name)


def _content(place: str, message: MessageBody, *, optional: bool) -> str:
    if message.content is None:
        if optional:
            return ""
        raise bad_request(f"{place}.content is missing.", f"{place}.content")
    if isinstance(message.content, str):
        return message.content
    texts = []
    for position, part in enumerate(message.content):
        if part.type != "text" or part.text is None:
            where = f"{place}.content[{position}]"
            raise bad_request(f"{where}: only parts of type 'text' are supported here.", f"{where}.type")
        texts.append(part.text)
    return "".join(texts)


def _call(place: str, call: _Call) -> ToolCall:
    if call.type != "function":
        raise bad_request(f"{place}.type is {call.type!r}: only functions are called here.", f"{place}.type")
    arguments = call.function.arguments.strip() or "{}"
    try:
        whole = isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.MsgspecError, RecursionError):
        whole = False
    if not whole:
        raise bad_request(f"{place}.function.arguments is no JSON object.", f"{place}.function.arguments")
    return ToolCall(id=call.id, name=call.function.name, arguments=arguments)
