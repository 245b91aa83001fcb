"""Rules, in llguidance's dialect of Lark, by which an answer becomes calls of tools in the format of a model."""

from __future__ import annotations

import json
from collections.abc import Callable

from inference.contracts.tools import ARGUMENTS_FOLLOW, LAYOUTS, ToolFormat, ToolGrammar

SpecialId = Callable[[str], int | None]


def rules(grammar: ToolGrammar, format: ToolFormat, special_id: SpecialId, white_space: str) -> str:
    """The grammar as text. special_id: of a text that is one special token. white_space: what may
    stand between the parts of a JSON value. What can't be followed of a tool that is not strict is left out.

    Raises:
        ValueError: parameters are no JSON object.
    """
    calls = _Calls(grammar, format, special_id)
    lines = [
        "%llguidance {}",
        f"start: {calls.start}",
        f"name_and_arguments: {' | '.join(calls.named)}",
        r"TEXT: /(.|\n)*/",
        r"NO_OBJECT: /([^{\s](.|\n)*)?/",
        f"opened[lazy]: TEXT {json.dumps(LAYOUTS[format].opens)}",
    ]
    for number, tool in enumerate(grammar.tools):
        schema = _object(tool.parameters, f"the schema of {tool.name}", white_space, strict=tool.strict)
        lines.append(f"arguments_{number}: %json {schema}")
    if grammar.otherwise is not None:
        lines.append(
            f"otherwise: %json {_object(grammar.otherwise, 'the schema of the answer', white_space, strict=True)}"
        )
    return "\n".join(lines) + "\n"


def _object(schema: str, of_what: str, white_space: str, *, strict: bool) -> str:
    described = json.loads(schema)
    if not isinstance(described, dict):
        raise ValueError(f"{of_what} is no object")
    return json.dumps(described | {"x-guidance": {"whitespace_pattern": white_space, "lenient": not strict}})


class _Calls:
    """The parts of the rules that differ between formats."""

    def __init__(self, grammar: ToolGrammar, format: ToolFormat, special_id: SpecialId) -> None:
        self._special_id = special_id
        self._layout = LAYOUTS[format]
        self._opens = self._marker(self._layout.opens)
        is_special = special_id(self._layout.opens) is not None
        free = grammar.optional and grammar.otherwise is None
        after_text = free and format is not ToolFormat.LLAMA3_JSON and not is_special
        calls = {
            ToolFormat.HERMES: self._hermes,
            ToolFormat.LLAMA3_JSON: self._llama3,
            ToolFormat.MISTRAL: self._mistral,
            ToolFormat.MISTRAL_NAMED: self._mistral_named,
        }[format]("opened" if after_text else self._opens, grammar.several)
        if not grammar.optional:
            self.start = calls
        elif grammar.otherwise is not None:
            self.start = f"{calls} | otherwise"
        elif format is ToolFormat.LLAMA3_JSON:
            self.start = f"{calls} | NO_OBJECT"
        else:
            self.start = f"{calls} | TEXT" if after_text else f"TEXT ({calls})?"
        name = self._in_the_header if format is ToolFormat.MISTRAL_NAMED else self._in_the_object
        self.named = [name(number, tool.name) for number, tool in enumerate(grammar.tools)]

    def _hermes(self, first: str, several: bool) -> str:
        call = f'"\\n" {self._object} "\\n" {self._marker(self._layout.closes)}'
        return f'{first} {call} ("\\n" {self._opens} {call})*' if several else f"{first} {call}"

    def _llama3(self, first: str, several: bool) -> str:
        call = self._object if first == json.dumps(self._layout.opens) else f"{first}? {self._object}"
        return f'{call} ("; " {self._object})*' if several else call

    def _mistral(self, first: str, several: bool) -> str:
        rest = f' (", " {self._object})*' if several else ""
        return f'{first} "[" {self._object}{rest} "]"'

    def _mistral_named(self, first: str, several: bool) -> str:
        call = "name_and_arguments"
        return f"{first} {call} ({self._opens} {call})*" if several else f"{first} {call}"

    @property
    def _object(self) -> str:
        return '"{" name_and_arguments "}"'

    def _in_the_object(self, number: int, name: str) -> str:
        before = f'"name": {json.dumps(name)}, "{self._layout.arguments}": '
        return f"{json.dumps(before)} arguments_{number}"

    def _in_the_header(self, number: int, name: str) -> str:
        return f"{json.dumps(name)} {self._marker(ARGUMENTS_FOLLOW)} arguments_{number}"

    def _marker(self, text: str) -> str:
        special = self._special_id(text)
        return json.dumps(text) if special is None else f"<[{special}]>"
