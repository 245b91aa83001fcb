"""Tools that a model may call, calls of them, and the formats in which models write such calls."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec


class ToolFormat(StrEnum):
    """How a model writes calls, as its chat template teaches it.

    HERMES: <tool_call>{"name": ..., "arguments": {...}}</tool_call>, one after the other, with text before them
    (Hermes, Qwen 2.5 and 3, SmolLM2). LLAMA3_JSON: the whole answer is {"name": ..., "parameters": {...}}, several of
    them with semicolons between (Llama 3.1 and later). MISTRAL: [TOOL_CALLS] and a list of {"name": ...,
    "arguments": {...}}. MISTRAL_NAMED: [TOOL_CALLS]name[ARGS]{...} for each call (Mistral models since 2025).
    """

    HERMES = "hermes"
    LLAMA3_JSON = "llama3_json"
    MISTRAL = "mistral"
    MISTRAL_NAMED = "mistral_named"


@dataclass(frozen=True, slots=True)
class Layout:
    """opens: what a call, or a list of them, begins with. closes: what it ends with. arguments: the key of the
    arguments in the object of a call."""

    opens: str
    closes: str = ""
    arguments: str = "arguments"


LAYOUTS = {
    ToolFormat.HERMES: Layout(opens="<tool_call>", closes="</tool_call>"),
    ToolFormat.LLAMA3_JSON: Layout(opens="<|python_tag|>", arguments="parameters"),
    ToolFormat.MISTRAL: Layout(opens="[TOOL_CALLS]"),
    ToolFormat.MISTRAL_NAMED: Layout(opens="[TOOL_CALLS]"),
}

#: Stands between the name and the arguments of a call in `MISTRAL_NAMED`.
ARGUMENTS_FOLLOW = "[ARGS]"


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One function that the model may call. parameters: JSON Schema of its arguments, an object, as text. strict: the
    arguments must conform to it, also where the model is free to call or not."""

    name: str
    description: str | None = None
    parameters: str = '{"type":"object","properties":{}}'
    strict: bool = False


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model made earlier. arguments: a JSON object as text."""

    id: str
    name: str
    arguments: str


class ToolGrammar(msgspec.Struct, frozen=True, kw_only=True, tag="tools"):
    """The answer is one call or several of these tools, in the format of the model, with arguments that conform.

    several: more than one may be made. optional: the model may write text before calls or instead of them.
    otherwise: and that text is then one JSON value that conforms to this JSON Schema.
    """

    tools: tuple[Tool, ...]
    several: bool = True
    optional: bool = False
    otherwise: str | None = None
