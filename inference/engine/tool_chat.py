"""Tools in chats: which format a model's chat template teaches, and how tools are told where it teaches none."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from inference.contracts.prompts import ChatMessage
from inference.contracts.tools import ARGUMENTS_FOLLOW, LAYOUTS, Tool, ToolCall, ToolFormat

#: As a chat template sees a message or a tool.
Layout = dict[str, Any]

_TOOLS = re.compile(r"\btools\b")
_LLAMA3 = re.compile(r"python_tag|ipython")

#: Marks of formats that begin like Hermes's and go on in another way (Qwen3-Coder, GLM-4.5).
_NOT_HERMES = ("<function=", "<arg_key>")

#: Mistral's templates take no other ids; what tells calls apart is at the end.
_MISTRAL_ID = 9

_HERMES_SYSTEM = """\
You are a function calling AI model. You are provided with function signatures within <tools></tools> XML tags. \
You may call one or more functions to assist with the user query. Don't make assumptions about what values to plug \
into functions. Here are the available tools:
<tools>
{tools}
</tools>
For each function call return a JSON object with the function's name and arguments within <tool_call></tool_call> \
XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


def knows_tools(template: str) -> bool:
    """Whether `template` lays tools out by itself."""
    return _TOOLS.search(template) is not None


def format_of(template: str) -> ToolFormat | None:
    """How a model with this chat template writes calls; None where it has tools in a format that is not known here.

    A template without tools gets those of Hermes: see `in_words_of_hermes`.
    """
    if not knows_tools(template):
        return ToolFormat.HERMES
    if LAYOUTS[ToolFormat.MISTRAL].opens in template:
        return ToolFormat.MISTRAL_NAMED if ARGUMENTS_FOLLOW in template else ToolFormat.MISTRAL
    if LAYOUTS[ToolFormat.HERMES].opens in template:
        return None if any(mark in template for mark in _NOT_HERMES) else ToolFormat.HERMES
    return ToolFormat.LLAMA3_JSON if _LLAMA3.search(template) else None


def for_template(message: ChatMessage, format: ToolFormat | None) -> Layout:
    """`message` as templates expect it: in the shape of OpenAI's API, with arguments as objects."""
    laid_out: Layout = {"role": message.role, "content": message.content}
    if message.tool_calls:
        laid_out["tool_calls"] = [
            {"id": _id(call.id, format), "type": "function", "function": _called(call)} for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        laid_out["tool_call_id"] = _id(message.tool_call_id, format)
    if message.name is not None:
        laid_out["name"] = message.name
    return laid_out


def described(tool: Tool) -> Layout:
    """`tool` as templates expect it."""
    function: Layout = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    return {"type": "function", "function": function | {"parameters": json.loads(tool.parameters)}}


def in_words_of_hermes(messages: Sequence[ChatMessage], tools: Sequence[Tool]) -> list[Layout]:
    """Messages of the plain roles system, user and assistant that tell of tools, of calls and of their results, for a
    template that knows none of them.

    Source: the prompt format for function calling of Hermes 2 Pro (Nous Research), which Qwen 2.5 took over.
    """
    laid_out: list[Layout] = []
    last = ""
    if tools:
        listed = "\n".join(json.dumps(described(tool), ensure_ascii=False) for tool in tools)
        laid_out.append({"role": "system", "content": _HERMES_SYSTEM.format(tools=listed)})
        last = "tools"
    for message in messages:
        role, content = _plain(message)
        if (last, message.role) == ("tools", "system"):
            laid_out[-1]["content"] += "\n\n" + content
        elif last == message.role == "tool":
            laid_out[-1]["content"] += "\n" + content
        else:
            laid_out.append({"role": role, "content": content})
        last = message.role
    return laid_out


def _plain(message: ChatMessage) -> tuple[str, str]:
    if message.role == "tool":
        return "user", f"<tool_response>\n{message.content}\n</tool_response>"
    calls = [
        f"<tool_call>\n{json.dumps(_called(call), ensure_ascii=False)}\n</tool_call>" for call in message.tool_calls
    ]
    return message.role, "\n".join([message.content, *calls] if message.content else calls or [""])


def _called(call: ToolCall) -> Layout:
    return {"name": call.name, "arguments": json.loads(call.arguments)}


def _id(call_id: str, format: ToolFormat | None) -> str:
    return call_id[-_MISTRAL_ID:] if format in (ToolFormat.MISTRAL, ToolFormat.MISTRAL_NAMED) else call_id
