"""The part of a chat request that says which tools the model may, or must, call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from inference.contracts.tools import Tool, ToolGrammar
from inference.router.errors import ApiError, bad_request

MAX_TOOLS = 128

#: As OpenAI has it, and what else names of tools are made of elsewhere.
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_ANY_OBJECT = '{"type":"object"}'
_CHOICES = "none, auto, required, or an object that names a function or allowed_tools"


class _Function(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolBody(msgspec.Struct):
    type: str
    function: _Function | None = None


class _NamedTool(msgspec.Struct):
    name: str


class _ToolReference(msgspec.Struct):
    function: _NamedTool
    type: str = "function"


class _Allowed(msgspec.Struct):
    mode: str
    tools: list[_ToolReference]


class ChoiceBody(msgspec.Struct):
    type: str
    function: _NamedTool | None = None
    allowed_tools: _Allowed | None = None


@dataclass(frozen=True, slots=True)
class ToolUse:
    """tools: what the model is told of. callable: what of them it may call. must: it may not answer with text.
    several: it may make more than one call."""

    tools: tuple[Tool, ...]
    callable: tuple[Tool, ...]
    must: bool
    several: bool

    def grammar(self, schema: str | None) -> ToolGrammar | None:
        """What the answer must be; None where it is free. schema: of an answer that is no call, if there is one.

        What the model writes freely is bound to the parameters of strict tools only.
        """
        if self.must:
            return ToolGrammar(tools=self.callable, several=self.several)
        if schema is None and not any(tool.strict for tool in self.callable):
            return None
        tools = tuple(
            tool if tool.strict else msgspec.structs.replace(tool, parameters=_ANY_OBJECT) for tool in self.callable
        )
        return ToolGrammar(tools=tools, several=self.several, optional=True, otherwise=schema)


def read_tools(tools: list[ToolBody] | None, choice: str | ChoiceBody | None, parallel: bool | None) -> ToolUse | None:
    """None where the model is to call nothing; it is then not told of any tool.

    Raises:
        ApiError: 400 with the field at fault.
    """
    known = _known(tools or [])
    wanted = "auto" if choice is None else choice
    if isinstance(wanted, str) and wanted not in ("none", "auto", "required"):
        raise _bad_choice(f"tool_choice is {wanted!r}: it must be {_CHOICES}.")
    if not known:
        if wanted not in ("none", "auto"):
            raise _bad_choice("tool_choice asks for a call, but there are no tools.")
        return None
    if wanted == "none":
        return None
    several = parallel is not False
    every = tuple(known.values())
    if isinstance(wanted, str):
        return ToolUse(every, every, must=wanted == "required", several=several)
    if wanted.type == "function" and wanted.function is not None:
        return ToolUse(every, (_named(known, wanted.function),), must=True, several=False)
    if wanted.type == "allowed_tools" and wanted.allowed_tools is not None:
        return _allowed(known, wanted.allowed_tools, several)
    raise _bad_choice(f"tool_choice of type {wanted.type!r} is not offered: it must be {_CHOICES}.")


def _known(tools: list[ToolBody]) -> dict[str, Tool]:
    if len(tools) > MAX_TOOLS:
        raise bad_request(f"tools holds {len(tools)} tools: at most {MAX_TOOLS} are allowed.", "tools")
    known: dict[str, Tool] = {}
    for index, tool in enumerate(tools):
        place = f"tools[{index}]"
        if tool.type != "function":
            raise bad_request(
                f"{place}.type is {tool.type!r}: only functions are offered.", f"{place}.type", "unsupported_parameter"
            )
        if tool.function is None:
            raise bad_request(f"{place}.function is missing.", f"{place}.function")
        name = tool.function.name
        if not _NAME.fullmatch(name):
            text = f"{place}.function.name is {name[:140]!r}: it must be 1 to 128 letters, digits or _ - . : /"
            raise bad_request(text, f"{place}.function.name")
        if name in known:
            raise bad_request(f"{place}.function.name is {name!r}: a tool before has it.", f"{place}.function.name")
        known[name] = _tool(tool.function)
    return known


def _tool(function: _Function) -> Tool:
    tool = Tool(name=function.name, description=function.description, strict=bool(function.strict))
    if not function.parameters:
        return tool
    schema = function.parameters if "type" in function.parameters else {"type": "object"} | function.parameters
    return msgspec.structs.replace(tool, parameters=msgspec.json.encode(schema).decode())


def _allowed(known: dict[str, Tool], allowed: _Allowed, several: bool) -> ToolUse:
    """A model that is free to choose is told only of what it may call, since nothing else would keep it from more."""
    if allowed.mode not in ("auto", "required"):
        raise _bad_choice(f"tool_choice.allowed_tools.mode is {allowed.mode!r}: it must be auto or required.")
    if not allowed.tools:
        raise _bad_choice("tool_choice.allowed_tools.tools names no tool.")
    chosen = {tool.name: tool for tool in (_named(known, each.function) for each in allowed.tools)}
    subset = tuple(chosen.values())
    must = allowed.mode == "required"
    return ToolUse(tuple(known.values()) if must else subset, subset, must, several)


def _named(known: dict[str, Tool], wanted: _NamedTool) -> Tool:
    if wanted.name not in known:
        raise _bad_choice(f"tool_choice names {wanted.name[:140]!r}, which is none of the tools.")
    return known[wanted.name]


def _bad_choice(message: str) -> ApiError:
    return bad_request(message, "tool_choice")
