"""Every way to choose tokens, behind real worker servers: split over two workers it gives what one worker gives."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import ChosenLogprob, Finished
from inference.contracts.prompts import ChatMessage, ChatPrompt, TextPrompt, TokenPrompt
from inference.contracts.sampling import SAMPLING_VERSION, JsonGrammar, Sampling
from inference.contracts.states import FinishReason
from inference.contracts.tools import Tool, ToolGrammar
from inference.testing.fleet import stub_fleet
from inference.testing.stub_settings import StubSettings
from inference.testing.tiny_model import END_ID
from inference.testing.worker_client import Answer
from tests.inference.worker.test_native_pair import pair, tiny  # noqa: F401 - a fixture

PROMPT = "The quick brown fox jumps over the lazy dog. " * 3
PERSON = JsonGrammar(
    schema=json.dumps(
        {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 6}, "ok": {"type": "boolean"}},
            "required": ["name", "ok"],
            "additionalProperties": False,
        }
    )
)
PAGE = ToolGrammar(
    tools=(
        Tool(
            name="turn",
            parameters=json.dumps(
                {
                    "type": "object",
                    "properties": {"page": {"type": "integer", "minimum": 1, "maximum": 99}},
                    "required": ["page"],
                    "additionalProperties": False,
                }
            ),
        ),
    ),
    several=False,
)
WAYS = {
    "min_p": Sampling(max_tokens=24, temperature=1.0, min_p=0.05, seed=3),
    "repetition": Sampling(max_tokens=24, temperature=0.0, repetition_penalty=1.4),
    "presence and frequency": Sampling(
        max_tokens=24, temperature=0.7, presence_penalty=1, frequency_penalty=0.5, seed=8
    ),
    "bias": Sampling(max_tokens=24, temperature=0.0, logit_bias={65: 30.0, 66: -100.0}),
    "least tokens": Sampling(max_tokens=24, min_tokens=20, temperature=0.0, logit_bias={END_ID: 100.0}),
    "logprobs": Sampling(max_tokens=24, temperature=1.0, logprobs=3, seed=5),
    "grammar": Sampling(max_tokens=400, temperature=1.0, grammar=PERSON, seed=21),
    "a call": Sampling(max_tokens=200, temperature=1.0, grammar=PAGE, seed=2, special_tokens=True),
    "special tokens": Sampling(max_tokens=24, temperature=0.0, logit_bias={END_ID - 1: 100.0}, special_tokens=True),
    "several": Sampling(max_tokens=24, temperature=1.0, n=4, seed=6, logprobs=0),
    "several, penalised": Sampling(max_tokens=24, temperature=1.0, n=3, seed=6, repetition_penalty=1.2, top_p=0.9),
    "several of one token": Sampling(max_tokens=1, temperature=1.0, n=3, seed=6),
}


@dataclass
class One:
    """One of several answers."""

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish: FinishReason | None = None
    logprobs: list[ChosenLogprob] = field(default_factory=list)

    @property
    def told(self) -> list[tuple[str, float, list[str]]]:
        """Log-probabilities rounded to what two shapes of a matrix product have in common."""
        return [(e.token, round(e.logprob, 3), [top.token for top in e.top_logprobs]) for e in self.logprobs]


def apart(answer: Answer) -> list[One]:
    made: dict[int, One] = {}
    for delta in answer.deltas:
        one = made.setdefault(delta.answer, One())
        assert one.finish is None, "a token after the end"
        one.token_ids += delta.token_ids
        one.text += delta.text
        one.finish = delta.finish
        one.logprobs += delta.logprobs
    return [made[number] for number in sorted(made)]


@pytest.mark.parametrize("way", WAYS)
async def test_split_over_two_workers_the_answers_are_those_of_one(client, tiny, way: str) -> None:  # noqa: F811
    sampling = WAYS[way]
    async with pair(tiny) as (prefill, decode):
        here = await client.answer_here(decode, PROMPT, sampling)
        split = await client.answer_by_handoff(prefill, decode, PROMPT, sampling)
    assert isinstance(here.end, Finished)
    assert isinstance(split.end, Finished)
    assert len(apart(here)) == sampling.n
    for one, other in zip(apart(here), apart(split), strict=True):
        assert (one.token_ids, one.text, one.finish) == (other.token_ids, other.text, other.finish)
        assert one.told == other.told
    assert here.end.completion_tokens == split.end.completion_tokens == len(here.token_ids) == len(split.token_ids)


async def test_each_way_does_what_it_says(client, tiny) -> None:  # noqa: F811
    async with pair(tiny) as (_, decode):
        made = {way: apart(await client.answer_here(decode, PROMPT, sampling)) for way, sampling in WAYS.items()}
    assert made["bias"][0].token_ids[:3] == [65] * 3
    assert len(made["least tokens"][0].token_ids) == 21
    assert made["least tokens"][0].finish is FinishReason.STOP
    person = json.loads(made["grammar"][0].text)
    assert set(person) == {"name", "ok"}
    assert made["grammar"][0].finish is FinishReason.STOP
    call = made["a call"][0]
    assert call.text.startswith("<tool_call>\n")
    told = json.loads(call.text.removeprefix("<tool_call>").removesuffix("</tool_call>"))
    assert (told["name"], set(told["arguments"]), call.finish) == ("turn", {"page"}, FinishReason.STOP)
    assert made["special tokens"][0].text == "<|im_start|>" * 24
    assert len({tuple(one.token_ids) for one in made["several"]}) == 4
    for one in made["several"]:
        assert len(one.logprobs) == len(one.token_ids) - (one.finish is FinishReason.STOP)  # an end tells none
    assert all(len(entry.top_logprobs) == 3 for entry in made["logprobs"][0].logprobs)


async def test_the_first_of_several_answers_is_the_only_one_of_a_request_for_one(client, tiny) -> None:  # noqa: F811
    alone = Sampling(max_tokens=24, temperature=1.0, seed=6, logprobs=0)
    async with pair(tiny) as (_, decode):
        first, *_ = apart(await client.answer_here(decode, PROMPT, WAYS["several"]))
        assert apart(await client.answer_here(decode, PROMPT, alone))[0].token_ids == first.token_ids


async def test_answers_that_end_apart_free_everything_once(client) -> None:
    """Answers of several lengths, some of which end with their first token on the prefill worker."""
    sampling = Sampling(max_tokens=30, temperature=1.0, n=8, seed=4, stop=("a", "e"))
    async with stub_fleet(settings=StubSettings()) as fleet:
        prefill, decode = fleet.prefill[0].http, fleet.decode[0].http
        here = apart(await client.answer_here(decode, "a prompt", sampling))
        split = apart(await client.answer_by_handoff(prefill, decode, "a prompt", sampling))
        assert split == here
        assert len({len(one.token_ids) for one in here}) > 1
        assert {one.finish for one in here} == {FinishReason.STOP}
        await fleet.settled()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 0}, "n"),
        ({"n": 33}, "n"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_p": 1.5}, "min_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"logprobs": 21}, "logprobs"),
        ({"logit_bias": {259: 1.0}}, "logit_bias"),
        ({"grammar": JsonGrammar(schema='{"type": "nope"}')}, "response_format"),
        ({"grammar": JsonGrammar(schema="{")}, "response_format"),
        ({"grammar": ToolGrammar(tools=(Tool(name="f", parameters="{"),))}, "tools"),
    ],
)
async def test_what_can_not_be_done_is_refused_by_name_and_nothing_is_held(client, tiny, fields, param) -> None:  # noqa: F811
    async with pair(tiny) as (_, decode):
        with pytest.raises(TandemError) as caught:
            await client.reserve(decode, TextPrompt(text="x"), Sampling(max_tokens=4, **fields))
        assert (caught.value.code, caught.value.param) == (ErrorCode.INVALID_REQUEST, param)
        assert (await client.status(decode)).load.tickets == 0


async def test_a_limit_that_nobody_named_is_lowered_until_all_answers_fit(client) -> None:
    sampling = Sampling(max_tokens=2000, n=4)
    async with stub_fleet(settings=StubSettings(kv_blocks=40)) as fleet:
        ticket = await client.reserve(fleet.decode[0].http, "x" * 20, sampling, clip_max_tokens=True)
        assert ticket.max_tokens == 40 // 4 * 16 - 20
        with pytest.raises(TandemError) as caught:
            await client.reserve(fleet.decode[0].http, "x" * 20, sampling)
        assert caught.value.code == ErrorCode.CONTEXT_LENGTH_EXCEEDED


async def test_a_ticket_tells_the_prompt_where_that_is_asked_for(client) -> None:
    sampling = Sampling(max_tokens=1)
    async with stub_fleet() as fleet:
        decode = fleet.decode[0].http
        for prompt in (TextPrompt(text="héllo"), TokenPrompt(token_ids=tuple("héllo".encode()))):
            ticket = await client.reserve(decode, prompt, sampling, echo=True)
            assert (ticket.prompt_text, ticket.sampling_version) == ("héllo", SAMPLING_VERSION)
        assert (await client.reserve(decode, "x", sampling)).prompt_text is None


@pytest.mark.model
async def test_the_default_model_writes_structured_and_several_answers_alike(client, default_model_dir) -> None:
    question = ChatPrompt(messages=(ChatMessage(role="user", content="Describe a person called Ada as JSON."),))
    ways = [
        Sampling(max_tokens=60, temperature=0.0, grammar=PERSON),
        Sampling(max_tokens=60, temperature=0.0, grammar=PAGE, special_tokens=True),
        Sampling(max_tokens=12, temperature=0.8, top_p=0.95, n=3, seed=4, logprobs=5),
        Sampling(max_tokens=12, temperature=0.7, min_p=0.05, repetition_penalty=1.1, presence_penalty=0.2, seed=4),
    ]
    async with pair(default_model_dir, prefill_chunk_tokens=64) as (prefill, decode):
        for sampling in ways:
            here = apart(await client.answer_here(decode, question, sampling))
            split = apart(await client.answer_by_handoff(prefill, decode, question, sampling))
            assert [one.token_ids for one in here] == [one.token_ids for one in split]
            assert [one.text for one in here] == [one.text for one in split]
            assert [one.told for one in here] == [one.told for one in split]
            if sampling.grammar is PAGE:
                assert re.search(r'\{"name": "turn", "arguments": \{\s*"page":\s*\d+\s*\}\}', here[0].text)
            elif sampling.grammar is not None:
                assert set(json.loads(here[0].text)) == {"name", "ok"}
