"""Answers that must be, or may hold, calls of tools: what may come token by token, for each format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from inference.contracts.errors import TandemError
from inference.contracts.tools import Tool, ToolFormat, ToolGrammar
from inference.engine.sampling.grammar import Grammars
from inference.engine.sampling.vocabulary import Vocabulary
from inference.testing.tiny_model import END, byte_tokenizer

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = Tool(name="weather", parameters=json.dumps(CITY))
TIME = Tool(name="time")

#: One call of each tool, as a model of the format writes them.
CALLS = {
    ToolFormat.HERMES: (
        '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'
    ),
    ToolFormat.LLAMA3_JSON: ('{"name": "weather", "parameters": {"city": "Köln"}}; {"name": "time", "parameters": {}}'),
    ToolFormat.MISTRAL: (
        '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Köln"}}, {"name": "time", "arguments": {}}]'
    ),
    ToolFormat.MISTRAL_NAMED: '[TOOL_CALLS]weather[ARGS]{"city": "Köln"}[TOOL_CALLS]time[ARGS]{}',
}
FORMATS = pytest.mark.parametrize("format", list(ToolFormat))
SPELT = pytest.mark.parametrize("special", [True, False], ids=["marker-token", "marker-text"])

Walk = Callable[..., bool]


def tokenizer_with(special: bool) -> PreTrainedTokenizerFast:
    tokenizer = byte_tokenizer()
    if special:
        for marker in ("<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]"):
            tokenizer.add_tokens([AddedToken(marker, special=True)], special_tokens=True)
    return tokenizer


@pytest.fixture(scope="module")
def walks() -> Any:
    """Whether an answer may be written to its end, by format and spelling of the markers."""
    made: list[Grammars] = []
    tokenizers = {special: tokenizer_with(special) for special in (True, False)}
    vocabularies = {
        special: Vocabulary(tokenizer, len(tokenizer), frozenset({tokenizer.convert_tokens_to_ids(END)}))
        for special, tokenizer in tokenizers.items()
    }

    def walk(format: ToolFormat, special: bool, answer: str, **how: Any) -> bool:
        grammars = Grammars(vocabularies[special], format)
        made.append(grammars)
        tools = how.pop("tools", (WEATHER, TIME))
        follower = grammars.follow(ToolGrammar(tools=tools, **how))
        for token in tokenizers[special](answer, add_special_tokens=False)["input_ids"]:
            if not follower.allowed()[token]:
                return False
            follower.accept(token)
        return bool(follower.allowed()[tokenizers[special].convert_tokens_to_ids(END)])

    yield walk
    for grammars in made:
        grammars.close()


@FORMATS
@SPELT
def test_calls_in_the_format_of_the_model_are_an_answer_and_text_is_none(
    walks: Walk, format: ToolFormat, special: bool
) -> None:
    assert walks(format, special, CALLS[format])
    assert not walks(format, special, CALLS[format][:-1])
    assert not walks(format, special, "It rains.")
    assert not walks(format, special, "")


@FORMATS
@SPELT
def test_arguments_conform_to_the_parameters(walks: Walk, format: ToolFormat, special: bool) -> None:
    assert not walks(format, special, CALLS[format].replace('"Köln"', "4711"))
    assert not walks(format, special, CALLS[format].replace('"city"', '"town"'))


@FORMATS
@SPELT
def test_only_the_given_tools_may_be_called(walks: Walk, format: ToolFormat, special: bool) -> None:
    assert not walks(format, special, CALLS[format], tools=(WEATHER,))


@FORMATS
@SPELT
def test_one_call_where_only_one_may_be_made(walks: Walk, format: ToolFormat, special: bool) -> None:
    assert not walks(format, special, CALLS[format], several=False)


@FORMATS
@SPELT
def test_a_free_answer_is_text_or_calls_that_conform(walks: Walk, format: ToolFormat, special: bool) -> None:
    assert walks(format, special, "It rains.\nA < b, [x] {y}", optional=True)
    assert walks(format, special, "", optional=True)
    assert walks(format, special, CALLS[format], optional=True)
    assert not walks(format, special, CALLS[format].replace('"Köln"', "4711"), optional=True)
    if format is not ToolFormat.LLAMA3_JSON:
        assert walks(format, special, "I'll look. " + CALLS[format], optional=True)


@FORMATS
@SPELT
def test_an_answer_is_calls_or_json_of_the_asked_form(walks: Walk, format: ToolFormat, special: bool) -> None:
    how = {"optional": True, "otherwise": '{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}'}
    assert walks(format, special, '{"ok": true}', **how)
    assert walks(format, special, CALLS[format], **how)
    assert not walks(format, special, "It rains.", **how)
    assert not walks(format, special, '{"ok": 3}', **how)


def test_what_can_not_be_followed_is_left_out_of_tools_that_are_not_strict(walks: Walk) -> None:
    parameters = '{"type":"object","properties":{"a":{"type":"string","format":"strange"}}}'
    answer = '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>'
    assert walks(ToolFormat.HERMES, True, answer, tools=(Tool(name="f", parameters=parameters),))
    with pytest.raises(TandemError, match="strange"):
        walks(ToolFormat.HERMES, True, answer, tools=(Tool(name="f", parameters=parameters, strict=True),))


def test_a_name_or_schema_with_quotes_stays_inside_its_place(walks: Walk) -> None:
    odd = Tool(name='a"b\\', parameters='{"type":"object","properties":{"\\"":{"const":"\\n"}},"required":["\\""]}')
    answer = '<tool_call>\n{"name": "a\\"b\\\\", "arguments": {"\\"": "\\n"}}\n</tool_call>'
    assert walks(ToolFormat.HERMES, False, answer, tools=(odd,))


@pytest.mark.parametrize("parameters", ['{"type":"object","properties":{"a":{"$ref":"#/nowhere"}}}', "[]", "{"])
def test_parameters_that_can_not_be_followed_are_refused_by_name(walks: Walk, parameters: str) -> None:
    with pytest.raises(TandemError) as caught:
        walks(ToolFormat.HERMES, True, "", tools=(Tool(name="f", parameters=parameters),))
    assert caught.value.param == "tools"


def test_a_model_whose_format_is_not_known_can_not_be_made_to_call(walks: Walk) -> None:
    with pytest.raises(TandemError, match="not known") as caught:
        walks(None, True, "")
    assert caught.value.param == "tools"
