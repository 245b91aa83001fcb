from __future__ import annotations

import json
from typing import Any

import pytest

from inference.contracts.prompts import ChatMessage, ChatPrompt, TextPrompt, TokenPrompt
from inference.contracts.sampling import JsonGrammar, Sampling
from inference.router.errors import ApiError
from inference.router.openai.request import read_chat, read_completion

USER = [{"role": "user", "content": "Hi"}]


def chat(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": USER, **fields}).encode()


def completion(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "prompt": "Once", **fields}).encode()


def refused(read: Any, body: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(body)
    assert caught.value.status == 400
    return caught.value


def test_a_plain_chat_gets_the_defaults_of_the_api() -> None:
    asked = read_chat(chat())
    assert asked.model == "m"
    assert asked.prompts == (ChatPrompt(messages=(ChatMessage(role="user", content="Hi"),)),)
    assert asked.max_tokens is None
    assert (asked.sampling.temperature, asked.sampling.top_p, asked.sampling.top_k) == (1.0, 1.0, 0)
    assert asked.sampling.stop == ()
    assert not asked.stream
    assert not asked.include_usage


def test_a_missing_seed_is_drawn_and_a_given_one_kept() -> None:
    assert read_chat(chat(seed=7)).sampling.seed == 7
    assert read_chat(chat()).sampling.seed != read_chat(chat()).sampling.seed
    assert read_chat(chat(seed=-1)).sampling.seed >= 0


def test_text_parts_are_joined_and_developer_means_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    asked = read_chat(chat(messages=[{"role": "developer", "content": "be brief"}, {"role": "user", "content": parts}]))
    messages = (ChatMessage(role="system", content="be brief"), ChatMessage(role="user", content="ab"))
    assert asked.prompts == (ChatPrompt(messages=messages),)


@pytest.mark.parametrize(
    ("fields", "limit"),
    [({"max_tokens": 5}, 5), ({"max_completion_tokens": 6}, 6), ({}, None), ({"max_tokens": None}, None)],
)
def test_either_name_of_the_limit_counts(fields: dict[str, Any], limit: int | None) -> None:
    assert read_chat(chat(**fields)).max_tokens == limit


def test_stop_may_be_one_text_or_four() -> None:
    assert read_chat(chat(stop="END")).sampling.stop == ("END",)
    assert read_chat(chat(stop=["a", "b", "c", "d"])).sampling.stop == ("a", "b", "c", "d")


def test_completions_take_a_text_or_token_ids_or_several_of_them() -> None:
    text, tokens = TextPrompt(text="Once"), TokenPrompt(token_ids=(1, 2))
    assert read_completion(completion()).prompts == (text,)
    assert read_completion(completion(prompt=[1, 2])).prompts == (tokens,)
    assert read_completion(completion(prompt=["Once"])).prompts == (text,)
    assert read_completion(completion(prompt=[[1, 2], "Once"])).prompts == (tokens, text)


def test_unknown_fields_and_values_that_ask_for_nothing_are_ignored() -> None:
    read_chat(
        chat(user="u", metadata={}, n=1, tools=[], tool_choice="auto", logprobs=False, top_logprobs=0, logit_bias={})
    )
    read_chat(
        chat(presence_penalty=0, frequency_penalty=0.0, response_format={"type": "text"}, parallel_tool_calls=True)
    )
    read_completion(completion(best_of=1, echo=False, suffix=None, logprobs=None, use_beam_search=False))
    assert read_completion(completion(n=2, best_of=2)).sampling.n == 2


def test_every_way_of_sampling_is_passed_on_as_it_was_asked_for() -> None:
    fields = {
        "n": 3,
        "min_tokens": 4,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "presence_penalty": -0.5,
        "frequency_penalty": 0.25,
        "seed": 11,
        "ignore_eos": True,
    }
    for asked in (read_chat(chat(max_tokens=9, **fields)), read_completion(completion(max_tokens=9, **fields))):
        assert asked.sampling == Sampling(max_tokens=9, **fields)
        assert asked.seeded
        assert asked.sampling.version == 2
    assert read_chat(chat(logit_bias={"50": -100, "7": 2.5})).sampling.logit_bias == {50: -100.0, 7: 2.5}
    assert read_chat(chat(temperature=0.5, top_p=0.9, top_k=3, stop="x", ignore_eos=True)).sampling.version == 1


def test_log_probabilities_are_asked_for_as_each_endpoint_spells_them() -> None:
    assert read_chat(chat(logprobs=True)).sampling.logprobs == 0
    assert read_chat(chat(logprobs=True, top_logprobs=20)).sampling.logprobs == 20
    assert read_chat(chat(logprobs=False)).sampling.logprobs is None
    assert read_completion(completion(logprobs=0)).sampling.logprobs == 0
    assert read_completion(completion(logprobs=5)).sampling.logprobs == 5


def test_a_response_format_becomes_a_grammar() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    named = {"type": "json_schema", "json_schema": {"name": "it", "strict": True, "schema": schema}}
    asked = read_chat(chat(response_format=named)).sampling.grammar
    assert asked is not None
    assert json.loads(asked.schema) == schema
    assert read_chat(chat(response_format={"type": "json_object"})).sampling.grammar == JsonGrammar(
        schema='{"type":"object"}'
    )
    assert read_chat(chat(response_format={"type": "text"})).sampling.grammar is None


def test_special_tokens_are_left_out_of_texts_and_added_to_prompts_unless_asked_otherwise() -> None:
    assert not read_chat(chat()).sampling.special_tokens
    assert read_chat(chat(skip_special_tokens=False)).sampling.special_tokens
    assert read_chat(chat(skip_special_tokens=False)).sampling.version == 3
    (bare,) = read_completion(completion(add_special_tokens=False)).prompts
    assert bare == TextPrompt(text="Once", special_tokens=False)
    assert bare.version == 3


def test_echo_is_for_completions() -> None:
    assert read_completion(completion(echo=True)).echo
    assert refused(read_chat, chat(echo=True)).param == "echo"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("best_of", 2),
        ("stop_token_ids", [5]),
        ("guided_regex", "a+"),
        ("prompt_logprobs", 1),
        ("functions", [{}]),
        ("modalities", ["text", "audio"]),
        ("allowed_token_ids", [1]),
        ("bad_words", ["x"]),
        ("use_beam_search", True),
        ("include_stop_str_in_output", True),
        ("truncate_prompt_tokens", 5),
        ("reasoning_effort", "high"),
        ("continue_final_message", True),
        ("chat_template", "{{ messages }}"),
        ("chat_template_kwargs", {"enable_thinking": True}),
    ],
)
def test_what_would_change_the_answer_and_is_not_offered_is_refused_by_name(name: str, value: Any) -> None:
    error = refused(read_chat, chat(**{name: value}))
    assert error.param == name
    assert error.code == "unsupported_parameter"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"best_of": 3}, "best_of"),
        ({"n": 2, "best_of": 3}, "best_of"),
        ({"suffix": "x"}, "suffix"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ],
)
def test_what_completions_do_not_offer_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    assert refused(read_completion, completion(**fields)).param == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_completion_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 6, "max_tokens": 5}, "min_tokens"),
        ({"min_p": 1.1}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"repetition_penalty": -1}, "repetition_penalty"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": -2.1}, "frequency_penalty"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"9" * 40: 1}}, "logit_bias"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"logit_bias": {"5": 10**400}}, "logit_bias.5"),
        ({"logit_bias": {"4": 1, "50": None}}, "logit_bias.50"),
        ({"logit_bias": {"50": "1"}}, "logit_bias.50"),
        ({"logit_bias": {"50": True}}, "logit_bias.50"),
        ({"logit_bias": {"50": []}}, "logit_bias.50"),
        ({"logit_bias": {str(token): 1 for token in range(1025)}}, "logit_bias"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"response_format": {"type": "json_object"}, "ignore_eos": True}, "ignore_eos"),
        ({"response_format": {"type": "json_object"}, "min_tokens": 2}, "min_tokens"),
        ({"seed": 1.5}, "seed"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "assistant", "content": "x", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].id"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"messages": "Hi"}, "messages"),
    ],
)
def test_bad_values_are_refused_with_the_field_at_fault(fields: dict[str, Any], param: str) -> None:
    assert refused(read_chat, chat(**fields)).param == param


@pytest.mark.parametrize("prompt", [[], [1, "a"], [-1], {"a": 1}, None, 3, ["a", []], [[1], [-2]], [True], ["a"] * 65])
def test_bad_prompts_are_refused(prompt: Any) -> None:
    assert refused(read_completion, completion(prompt=prompt)).param == "prompt"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff", b"null"])
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    refused(read_chat, body)


def test_a_missing_field_is_named() -> None:
    error = refused(read_chat, b'{"messages": [{"role": "user", "content": "x"}]}')
    assert error.param == "model"
    assert error.message == "model is missing."


def test_include_usage_needs_to_be_asked_for() -> None:
    assert read_chat(chat(stream=True, stream_options={"include_usage": True})).include_usage
    for options in (None, {}, {"include_usage": False}, {"include_usage": None}):
        assert not read_chat(chat(stream=True, stream_options=options)).include_usage


@pytest.mark.parametrize("field", ["max_tokens", "top_k"])
def test_numbers_that_no_worker_can_read_are_refused_by_name(field: str) -> None:
    assert refused(read_chat, chat(**{field: 10**30})).param == field
    assert refused(read_completion, completion(prompt=[10**30])).param == "prompt"


@pytest.mark.parametrize("field", ["prompt", "logit_bias"])
def test_a_body_nested_beyond_measure_is_refused(field: str) -> None:
    body = b'{"model": "m", "prompt": "x", "%s": %s%s}' % (field.encode(), b"[" * 100_000, b"]" * 100_000)
    assert "nested" in refused(read_completion, body).message
