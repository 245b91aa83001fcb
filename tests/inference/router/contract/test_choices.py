"""Several answers, several prompts, log-probabilities and echoes, as the stock client reads them; behind the router are
real worker servers with stub engines."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
import openai
import pytest

from inference.contracts.states import Role
from inference.contracts.timings import Counter
from inference.testing.fleet import MODEL
from tests.inference.router.conftest import SHORT, Bench, eventually
from tests.inference.router.test_with_fleet import PROMPTS, FleetBench, served  # noqa: F401 - a fixture

#: One that the answering worker reads itself, and one that is handed over.
BOTH = pytest.mark.parametrize("prompt", [PROMPTS[0], PROMPTS[-1]], ids=["local", "handoff"])
STOPS = ["a", "e"]


async def chat(served: FleetBench, prompt: str, **fields: Any) -> Any:  # noqa: F811
    messages = [{"role": "user", "content": prompt}]
    return await served.bench.strict.chat.completions.create(model=MODEL, messages=messages, **fields)


async def complete(served: FleetBench, prompt: Any, **fields: Any) -> Any:  # noqa: F811
    return await served.bench.openai.completions.create(model=MODEL, prompt=prompt, **fields)


@BOTH
async def test_several_answers_come_as_choices_streamed_and_whole(served: FleetBench, prompt: str) -> None:  # noqa: F811
    fields = {"n": 5, "seed": 3, "max_tokens": 30, "stop": STOPS}
    whole = await chat(served, prompt, **fields)
    assert [choice.index for choice in whole.choices] == list(range(5))
    assert {choice.finish_reason for choice in whole.choices} == {"stop"}
    texts = [choice.message.content for choice in whole.choices]
    assert len(set(texts)) > 1
    streamed, ends, usage = defaultdict(str), {}, None
    async for chunk in await chat(served, prompt, stream=True, stream_options={"include_usage": True}, **fields):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            assert choice.index not in ends, "text after the end"
            streamed[choice.index] += choice.delta.content or ""
            if choice.finish_reason is not None:
                ends[choice.index] = choice.finish_reason
    assert [streamed[index] for index in range(5)] == texts
    assert ends == dict.fromkeys(range(5), "stop")
    assert usage == whole.usage
    alone = await chat(served, prompt, **(fields | {"n": 1}))
    assert alone.choices[0].message.content == texts[0]
    assert whole.usage.completion_tokens > alone.usage.completion_tokens
    assert whole.usage.prompt_tokens == alone.usage.prompt_tokens


@BOTH
async def test_the_streaming_helper_keeps_several_answers_apart(served: FleetBench, prompt: str) -> None:  # noqa: F811
    fields: dict[str, Any] = {"n": 4, "seed": 3, "max_tokens": 30, "stop": STOPS, "logprobs": True}
    whole = await chat(served, prompt, **fields)
    messages: Any = [{"role": "user", "content": prompt}]
    async with served.bench.strict.chat.completions.stream(model=MODEL, messages=messages, **fields) as stream:
        final = await stream.get_final_completion()
    assert [choice.index for choice in final.choices] == list(range(4))
    for streamed, choice in zip(final.choices, whole.choices, strict=True):
        assert streamed.message.content == choice.message.content
        assert streamed.finish_reason == choice.finish_reason
        assert streamed.logprobs == choice.logprobs


@BOTH
async def test_chat_tells_log_probabilities_of_every_token(served: FleetBench, prompt: str) -> None:  # noqa: F811
    fields = {"logprobs": True, "top_logprobs": 1, "max_tokens": 6, "seed": 1}
    whole = (await chat(served, prompt, **fields)).choices[0]
    told = whole.logprobs.content
    assert len(told) == 6
    assert b"".join(bytes(entry.bytes) for entry in told).decode() == whole.message.content
    assert all(entry.top_logprobs[0].token == entry.token and entry.logprob == -0.5 for entry in told)
    streamed = []
    async for chunk in await chat(served, prompt, stream=True, **fields):
        for choice in chunk.choices:
            streamed += choice.logprobs.content if choice.logprobs else []
    assert streamed == told


@BOTH
async def test_completions_tell_them_in_their_own_layout(served: FleetBench, prompt: str) -> None:  # noqa: F811
    fields = {"logprobs": 1, "max_tokens": 6, "seed": 1}
    whole = (await complete(served, prompt, **fields)).choices[0]
    told = whole.logprobs
    assert "".join(told.tokens) == whole.text
    assert told.text_offset == [len("".join(told.tokens[:place])) for place in range(6)]
    assert told.token_logprobs == [-0.5] * 6
    assert told.top_logprobs == [{token: -0.5} for token in told.tokens]
    streamed = defaultdict(list)
    async for chunk in await complete(served, prompt, stream=True, **fields):
        for choice in chunk.choices:
            if choice.logprobs is not None:
                streamed["tokens"] += choice.logprobs.tokens
                streamed["text_offset"] += choice.logprobs.text_offset
    assert (streamed["tokens"], streamed["text_offset"]) == (told.tokens, told.text_offset)


async def test_without_asking_nothing_is_told(served: FleetBench) -> None:  # noqa: F811
    assert (await chat(served, "Hi", max_tokens=2)).choices[0].logprobs is None
    assert (await complete(served, "Hi", max_tokens=2)).choices[0].logprobs is None


async def test_several_prompts_are_answered_in_their_order(served: FleetBench) -> None:  # noqa: F811
    fields = {"max_tokens": 5, "seed": 2, "n": 2}
    alone = [await complete(served, prompt, **fields) for prompt in PROMPTS]
    together = await complete(served, list(PROMPTS), **fields)
    expected = [choice.text for answer in alone for choice in answer.choices]
    assert [choice.text for choice in together.choices] == expected
    assert [choice.index for choice in together.choices] == list(range(2 * len(PROMPTS)))
    assert together.usage.prompt_tokens == sum(answer.usage.prompt_tokens for answer in alone)
    assert together.usage.completion_tokens == 10 * len(PROMPTS)
    streamed, ends = defaultdict(str), 0
    async for chunk in await complete(served, list(PROMPTS), stream=True, **fields):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
            ends += choice.finish_reason is not None
    assert [streamed[index] for index in range(len(expected))] == expected
    assert ends == len(expected)


async def test_equal_prompts_without_a_seed_get_answers_of_their_own(served: FleetBench) -> None:  # noqa: F811
    answer = await complete(served, ["Hi", "Hi", "Hi"], max_tokens=8)
    assert len({choice.text for choice in answer.choices}) == 3


async def test_one_bad_prompt_refuses_the_request_and_gives_the_others_up(served: FleetBench) -> None:  # noqa: F811
    with pytest.raises(openai.BadRequestError) as caught:
        await complete(served, ["Hi", [999_999], "Ho"], max_tokens=400, extra_body={"ignore_eos": True})
    assert caught.value.param == "prompt"


@BOTH
@pytest.mark.parametrize("stream", [False, True])
async def test_an_echo_goes_before_every_answer(served: FleetBench, prompt: str, stream: bool) -> None:  # noqa: F811
    fields = {"max_tokens": 4, "n": 2, "seed": 9}
    plain = [choice.text for choice in (await complete(served, prompt, **fields)).choices]
    for given in (prompt, list(prompt.encode())):
        answer = await complete(served, given, echo=True, stream=stream, **fields)
        texts = defaultdict(str)
        chunks = [chunk async for chunk in answer] if stream else [answer]
        for choice in (choice for chunk in chunks for choice in chunk.choices):
            texts[choice.index] += choice.text
        assert [texts[0], texts[1]] == [prompt + text for text in plain]


async def test_every_prompt_counts_against_the_limits_of_a_key(served: FleetBench) -> None:  # noqa: F811
    bench = served.bench
    bench.keys[0] = msgspec.structs.replace(bench.keys[0], max_concurrent=2)
    before = bench.router.tables.keyring
    bench.publish_deployments(*bench.router.tables.deployments)
    await eventually(lambda: bench.router.tables.keyring is not before)
    with pytest.raises(openai.BadRequestError, match="3 prompts; this API key may have 2 requests at one time"):
        await complete(served, ["a", "b", "c"], max_tokens=2)
    assert len((await complete(served, ["a", "b"], max_tokens=2)).choices) == 2


async def test_a_response_format_reaches_the_workers(served: FleetBench) -> None:  # noqa: F811
    taken = await chat(served, PROMPTS[-1], max_tokens=2, response_format={"type": "json_object"})
    assert taken.choices[0].finish_reason == "length"


async def test_tokens_of_all_answers_are_counted(bench: Bench, served: FleetBench) -> None:  # noqa: F811
    await chat(served, PROMPTS[-1], n=4, max_tokens=5)
    counted = lambda: sum(window.counters.get(Counter.OUTPUT_TOKENS, 0) for window in bench.windows())  # noqa: E731
    await eventually(lambda: counted() == 20)


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"n": 2}, 503), ({"presence_penalty": 0.5}, 503), ({"temperature": 0.5, "stop": ["x"]}, 200)],
)
async def test_a_worker_of_an_older_release_is_asked_only_for_what_it_knows(
    bench: Bench, fields: dict[str, Any], status: int
) -> None:
    worker = bench.worker(Role.UNIFIED, sampling_version=1)
    await bench.start()
    given, answer = await bench.chat(SHORT, **fields)
    assert given == status, answer
    if status == 503:
        assert not worker.calls["generate"]
        await bench.at_rest()
        worker.sampling_version = 2
        assert (await bench.chat(SHORT, **(fields | {"n": 1})))[0] == 200
