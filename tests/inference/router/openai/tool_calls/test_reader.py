"""Calls of tools are found in what a model writes, however it is cut into pieces."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.tools import ToolFormat
from inference.router.openai.tool_calls.reader import CallDelta, CallReader, Piece

HERMES, LLAMA3, MISTRAL, NAMED = ToolFormat
A = '{"city": "Köln", "days": [1, {"x": "}"}]}'
WEATHER, TIME = ("weather", A), ("time", "{}")


def read(format: ToolFormat, *pieces: str, several: bool = True) -> tuple[str, list[tuple[str, str]], bool]:
    """Text, calls as (name, arguments), and whether the answer ended with calls."""
    ids = map(str, itertools.count())
    reader = CallReader(format, several=several, new_id=lambda: next(ids))
    out = [piece for text in pieces for piece in reader.feed(text)] + reader.flush()
    return text_of(out), calls_of(out), reader.called


def text_of(out: list[Piece]) -> str:
    return "".join(piece for piece in out if isinstance(piece, str))


def calls_of(out: list[Piece]) -> list[tuple[str, str]]:
    calls: list[tuple[str, str]] = []
    for delta in (piece for piece in out if isinstance(piece, CallDelta)):
        if delta.index == len(calls):
            assert (delta.call_id, delta.name is None) == (str(delta.index), False)
            calls.append((delta.name or "", delta.arguments))
        else:
            assert (delta.index, delta.call_id, delta.name) == (len(calls) - 1, None, None)
            assert delta.arguments
            calls[-1] = calls[-1][0], calls[-1][1] + delta.arguments
    return calls


CASES = [
    (HERMES, "It rains.", "It rains.", []),
    (HERMES, " a < b and <tool and <tool_cal", " a < b and <tool and <tool_cal", []),
    (HERMES, f'<tool_call>\n{{"name": "weather", "arguments": {A}}}\n</tool_call>', "", [WEATHER]),
    (
        HERMES,
        f'I look.\n<tool_call>\n{{"name": "weather", "arguments": {A}}}\n</tool_call>\n\n'
        '<tool_call>{"arguments": {}, "name": "time"}</tool_call>\n',
        "I look.\n",
        [WEATHER, TIME],
    ),
    (HERMES, f'<tool_call>[{{"name":"weather","arguments":{A}}},\n{{"name":"time"}}]</tool_call>', "", [WEATHER, TIME]),
    (HERMES, f'<tool_call>{{"name": "weather", "arguments": {json.dumps(A)}}}</tool_call>', "", [WEATHER]),
    (HERMES, '<tool_call>\n{"name": "time", "arguments": {}}\n', "", [TIME]),
    (HERMES, '<tool_call>{"name": "time", "arguments": {}}</tool_call> Done.', " Done.", [TIME]),
    (HERMES, '<tool_call>{"no": "call"}</tool_call>', '<tool_call>{"no": "call"}</tool_call>', []),
    (HERMES, "<tool_call>what?</tool_call>", "<tool_call>what?</tool_call>", []),
    (HERMES, "<tool_call>", "<tool_call>", []),
    (HERMES, " \n", " \n", []),
    (LLAMA3, f'{{"name": "weather", "parameters": {A}}}', "", [WEATHER]),
    (LLAMA3, f'<|python_tag|>{{"type": "function", "name": "weather", "parameters": {A}}}', "", [WEATHER]),
    (LLAMA3, f' {{"name": "weather", "parameters": {A}}}; {{"name": "time", "parameters": {{}}}}', "", [WEATHER, TIME]),
    (LLAMA3, '{"temperature": 3} is JSON', '{"temperature": 3} is JSON', []),
    (LLAMA3, 'See {"name": "time", "parameters": {}}', 'See {"name": "time", "parameters": {}}', []),
    (LLAMA3, "<|python", "<|python", []),
    (MISTRAL, f'[TOOL_CALLS] [{{"name": "weather", "arguments": {A}}}, {{"name": "time"}}]', "", [WEATHER, TIME]),
    (MISTRAL, '[TOOL_CALLS][{"name": "time", "arguments": {}, "id": "abcdefghi"}]', "", [TIME]),
    (MISTRAL, "A list [TOOL] it is", "A list [TOOL] it is", []),
    (NAMED, f"[TOOL_CALLS]weather[ARGS]{A}[TOOL_CALLS]time[ARGS]{{}}", "", [WEATHER, TIME]),
    (NAMED, f"Well. [TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{A}", "Well. ", [WEATHER]),
    (NAMED, f"[TOOL_CALLS]weather{A}", "", [WEATHER]),
]


@pytest.mark.parametrize(("format", "answer", "text", "calls"), CASES)
def test_text_and_calls_are_told_apart(
    format: ToolFormat, answer: str, text: str, calls: list[tuple[str, str]]
) -> None:
    assert read(format, answer) == (text, calls, bool(calls))


@pytest.mark.parametrize(("format", "answer", "text", "calls"), CASES)
@pytest.mark.parametrize("seed", range(4))
def test_it_does_not_matter_how_the_answer_is_cut(
    format: ToolFormat, answer: str, text: str, calls: list[tuple[str, str]], seed: int
) -> None:
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(len(answer) + 1), rng.randint(0, len(answer)))) if seed else range(len(answer))
    pieces = [answer[begin:end] for begin, end in itertools.pairwise([0, *cuts, len(answer)])]
    assert read(format, *pieces) == (text, calls, bool(calls))


def test_arguments_are_told_as_they_come() -> None:
    reader = CallReader(HERMES, new_id=lambda: "id")
    assert reader.feed('<tool_call>{"name": "f", "arguments": ') == [CallDelta(0, "", "id", "f")]
    assert reader.feed('{"a": "x') == [CallDelta(0, '{"a": "x')]
    assert reader.feed('yz"') == [CallDelta(0, 'yz"')]
    assert reader.feed("}") == [CallDelta(0, "}")]
    assert reader.feed("}</tool_call>") == []
    assert reader.flush() == []


def test_text_is_told_as_soon_as_it_can_be_no_mark() -> None:
    reader = CallReader(HERMES)
    assert reader.feed("a <tool") == ["a "]
    assert reader.feed("box") == ["<toolbox"]


@pytest.mark.parametrize(
    ("answer", "text", "calls"),
    [
        ('<tool_call>{"name": "weather", "arguments": {"city": "K', "", [("weather", '{"city": "K')]),
        ('<tool_call>{"name": "wea', '<tool_call>{"name": "wea', []),
        ('<tool_call>{"arguments": {"a": 1}', '<tool_call>{"arguments": {"a": 1}', []),
    ],
)
def test_a_call_that_is_cut_stays_as_far_as_it_came(answer: str, text: str, calls: list[tuple[str, str]]) -> None:
    assert read(HERMES, answer) == (text, calls, False)


def test_further_calls_are_left_out_where_one_was_asked_for() -> None:
    call = '<tool_call>{"name": "time", "arguments": {}}</tool_call>'
    assert read(HERMES, call + "\n" + call + " and text", several=False) == ("", [TIME], True)


@given(
    st.sampled_from(list(ToolFormat)), st.text(alphabet='<tool_ca>/[TOOL_CALLS]{}":, name arguments;\\', max_size=80)
)
def test_whatever_is_written_is_read_and_no_text_is_lost_without_a_call(format: ToolFormat, answer: str) -> None:
    text, calls, _ = read(format, *answer)
    assert read(format, answer)[:2] == (text, calls)
    if not calls:
        assert text == answer
