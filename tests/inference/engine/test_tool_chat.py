"""Tools in chats: told as the template teaches, or in the words of Hermes where it teaches nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from inference.contracts.errors import TandemError
from inference.contracts.prompts import ChatMessage, ChatPrompt
from inference.contracts.tools import Tool, ToolCall, ToolFormat
from inference.engine.chat import tokenize, tool_format
from inference.engine.tool_chat import format_of, in_words_of_hermes
from inference.testing.tiny_model import VOCAB_SIZE

WEATHER = Tool(name="weather", description="Of a city.", parameters='{"type":"object","properties":{}}')
CALL = ToolCall(id="call_0123456789abcdef", name="weather", arguments='{"city": "Köln"}')
ASKED = ChatMessage(role="user", content="Rain?")
CALLED = ChatMessage(role="assistant", content="", tool_calls=(CALL,))
TOLD = ChatMessage(role="tool", content="yes", tool_call_id=CALL.id, name="weather")

#: What decides in the templates of the families, in little.
TEMPLATES = {
    "qwen2.5": ("{% if tools %}<tools>{{ tools }}</tools> <tool_call>{% endif %}", ToolFormat.HERMES),
    "qwen3-coder": ("{% if tools %}<tool_call>\n<function=name>{% endif %}", None),
    "glm-4.5": ("{% if tools %}<tool_call>name<arg_key>{% endif %}", None),
    "llama3.1": ("{% if tools is not none %}Environment: ipython{% endif %}<|python_tag|>", ToolFormat.LLAMA3_JSON),
    "mistral": ("{% if tools %}[AVAILABLE_TOOLS]{% endif %}[TOOL_CALLS] [{}]", ToolFormat.MISTRAL),
    "mistral-small": ("{% if tools %}{% endif %}[TOOL_CALLS]name[ARGS]{}", ToolFormat.MISTRAL_NAMED),
    "other": ("{% if tools %}<|tool|>{% endif %}", None),
    "chatml": ("{{ messages[0]['content'] }}", ToolFormat.HERMES),
}


@pytest.fixture
def tokenizer(tiny_model: Callable[..., Path]) -> Any:
    return AutoTokenizer.from_pretrained(tiny_model("llama"))


def laid_out(tokenizer: Any, *messages: ChatMessage, tools: tuple[Tool, ...] = (WEATHER,), **fields: Any) -> str:
    prompt = ChatPrompt(messages=messages, tools=tools, **fields)
    text: str = tokenizer.decode(tokenize(tokenizer, prompt, VOCAB_SIZE))
    return text


@pytest.mark.parametrize("family", TEMPLATES)
def test_the_template_tells_how_calls_are_written(tokenizer: Any, family: str) -> None:
    template, expected = TEMPLATES[family]
    assert format_of(template) is expected
    tokenizer.chat_template = template
    assert tool_format(tokenizer) is expected


def test_a_base_model_writes_no_calls(tokenizer: Any) -> None:
    tokenizer.chat_template = None
    assert tool_format(tokenizer) is None


def test_a_template_of_its_own_for_tools_is_the_one_that_counts(tokenizer: Any) -> None:
    tokenizer.chat_template = {"default": "{{ messages[0].content }}", "tool_use": TEMPLATES["llama3.1"][0]}
    assert tool_format(tokenizer) is ToolFormat.LLAMA3_JSON


def test_the_template_gets_tools_calls_and_results_in_openais_shape(tokenizer: Any) -> None:
    tokenizer.chat_template = "{{ tools | tojson }}\n{% for m in messages %}{{ m | tojson }}\n{% endfor %}<tool_call>"
    tools, *messages = laid_out(tokenizer, ASKED, CALLED, TOLD).splitlines()[:4]
    assert json.loads(tools) == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Of a city.",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]
    call = {"id": CALL.id, "type": "function", "function": {"name": "weather", "arguments": {"city": "Köln"}}}
    assert [json.loads(message) for message in messages] == [
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "yes", "tool_call_id": CALL.id, "name": "weather"},
    ]


def test_mistrals_templates_get_ids_of_the_one_length_that_they_take(tokenizer: Any) -> None:
    tokenizer.chat_template = "[TOOL_CALLS]{{ tools }}{{ messages[1].tool_calls[0].id }} {{ messages[2].tool_call_id }}"
    assert laid_out(tokenizer, ASKED, CALLED, TOLD).endswith("789abcdef 789abcdef")


def test_a_format_that_can_not_be_read_is_refused_before_anything_is_computed(tokenizer: Any) -> None:
    tokenizer.chat_template = TEMPLATES["other"][0]
    with pytest.raises(TandemError, match="hermes, llama3_json, mistral") as caught:
        laid_out(tokenizer, ASKED)
    assert caught.value.param == "tools"
    tokenizer.chat_template += "{{ messages[0].content }}"
    assert laid_out(tokenizer, ASKED, tools=()) == "Rain?"


def test_a_template_without_tools_gets_them_in_the_words_of_hermes(tokenizer: Any) -> None:
    brief = ChatMessage(role="system", content="Be brief.")
    text = laid_out(tokenizer, brief, ASKED, CALLED, TOLD, TOLD)
    system, user, assistant, results, opened = text.split("<|im_start|>")[1:]
    assert '<tools>\n{"type": "function", "function": {"name": "weather", ' in system
    assert system.startswith("system\n")
    assert system.endswith("\n\nBe brief.<|im_end|>\n")
    assert user == "user\nRain?<|im_end|>\n"
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'
    assert assistant == f"assistant\n{call}<|im_end|>\n"
    result = "<tool_response>\nyes\n</tool_response>"
    assert results == f"user\n{result}\n{result}<|im_end|>\n"
    assert opened == "assistant\n"


def test_a_chat_without_tools_is_laid_out_as_ever() -> None:
    messages = [ChatMessage(role=role, content=role) for role in ("system", "system", "user", "user", "assistant")]
    expected = [{"role": message.role, "content": message.content} for message in messages]
    assert in_words_of_hermes(messages, ()) == expected


def test_a_prompt_may_be_laid_out_without_the_beginning_of_an_answer(tokenizer: Any) -> None:
    assert laid_out(tokenizer, ASKED, tools=(), generation_prompt=False) == "<|im_start|>user\nRain?<|im_end|>\n"
