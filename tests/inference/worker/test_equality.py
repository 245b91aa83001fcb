"""Disaggregated answers are those of one worker, token for token."""

import asyncio

import pytest

from inference.contracts.generation import Finished, HandoffDone
from inference.contracts.prompts import ChatMessage, ChatPrompt, TextPrompt, TokenPrompt
from inference.contracts.sampling import Sampling
from inference.contracts.states import FinishReason, PrefillPath
from inference.testing.fleet import stub_fleet
from inference.testing.stub_kv import KV_BYTES_PER_TOKEN
from inference.testing.stub_settings import StubSettings
from inference.testing.worker_client import collect

PROMPTS = [
    "x",
    "exactly sixteen.",
    "exactly thirty-two characters, so",
    "한국어로 된 긴 질문입니다. 도시의 이름을 말해 주세요.",
    "emoji 🙂 and 👩‍🚀 and a flag 🇰🇷",
    "def f(x):\n    return x ** 2\n" * 7,
    " ".join(f"word{n}" for n in range(150)),
]


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 19])
@pytest.mark.parametrize("sampled", [{"temperature": 0.0}, {"temperature": 0.8, "seed": 77}])
async def test_handoff_equals_local(fleet, client, max_tokens, sampled):
    prefill, decode = fleet.prefill[0].http, fleet.decode[0].http
    sampling = Sampling(max_tokens=max_tokens, **sampled)
    for prompt in PROMPTS:
        here = await client.answer_here(decode, prompt, sampling)
        pair = await client.answer_by_handoff(prefill, decode, prompt, sampling)
        assert (pair.token_ids, pair.text) == (here.token_ids, here.text)
        assert len(pair.token_ids) == max_tokens
        for answer in (here, pair):
            assert isinstance(answer.end, Finished)
            assert answer.end.completion_tokens == max_tokens
            assert answer.end.prompt_tokens == len(prompt.encode())
            assert answer.end.reason is FinishReason.LENGTH


async def test_another_seed_is_another_answer(fleet, client):
    decode = fleet.decode[0].http
    one, two = [
        await client.answer_here(decode, "p", Sampling(max_tokens=20, temperature=1.0, seed=seed)) for seed in (1, 2)
    ]
    assert one.text != two.text


async def test_many_at_once_answer_as_one_by_one(client):
    sampling = Sampling(max_tokens=12, temperature=0.0)
    async with stub_fleet(2, 2) as fleet:
        alone = [await client.answer_here(fleet.decode[0].http, prompt, sampling) for prompt in PROMPTS]
        together = await asyncio.gather(
            *(
                client.answer_by_handoff(fleet.prefill[n % 2].http, fleet.decode[n // 2 % 2].http, prompt, sampling)
                for n, prompt in enumerate(PROMPTS)
            )
        )
        assert [answer.text for answer in together] == [answer.text for answer in alone]
        await fleet.settled()


async def test_a_waiting_generate_call_goes_on_by_itself(fleet, client):
    """The way a router does it: the answer is asked for while the prompt is still being read."""
    prefill, decode = fleet.prefill[0].http, fleet.decode[0].http
    sampling = Sampling(max_tokens=9, temperature=0.0)
    ticket = await client.reserve(decode, PROMPTS[5], sampling)
    rest = asyncio.create_task(collect(client.generate(decode, ticket, PrefillPath.HANDOFF)))
    first = await collect(client.prefill(prefill, ticket, sampling))
    assert isinstance(first.end, HandoffDone)
    assert first.text + (await rest).text == (await client.answer_here(decode, PROMPTS[5], sampling)).text


async def test_chat_and_token_prompts_travel_too(fleet, client):
    prefill, decode = fleet.prefill[0].http, fleet.decode[0].http
    sampling = Sampling(max_tokens=5, temperature=0.0)
    chat = ChatPrompt(messages=(ChatMessage(role="user", content="hello"),))
    tokens = TokenPrompt(token_ids=tuple(b"<user>hello\n<assistant>"))
    answers = [await client.answer_by_handoff(prefill, decode, prompt, sampling) for prompt in (chat, tokens)]
    assert answers[0].text == answers[1].text


async def test_decode_receives_exactly_the_prompts_kv(fleet, client):
    """If this fails, the hand-off silently did not happen."""
    prefill, decode = fleet.prefill[0], fleet.decode[0]
    sampling = Sampling(max_tokens=4, temperature=0.0)
    for prompt in PROMPTS:
        before = decode.load.kv_bytes_received
        await client.answer_by_handoff(prefill.http, decode.http, prompt, sampling)
        assert decode.load.kv_bytes_received - before == len(prompt.encode()) * KV_BYTES_PER_TOKEN
    total = sum(len(prompt.encode()) for prompt in PROMPTS) * KV_BYTES_PER_TOKEN
    assert decode.load.kv_bytes_received == prefill.load.kv_bytes_sent == total


async def test_a_local_answer_moves_no_kv(fleet, client):
    await client.answer_here(fleet.decode[0].http, PROMPTS[6], Sampling(max_tokens=3))
    assert fleet.decode[0].load.kv_bytes_received == 0


async def test_a_unified_worker_answers_alone(client):
    async with stub_fleet(0, 0, 1) as fleet:
        worker = fleet.decode[0]
        ticket = await client.reserve(worker.http, "hello", Sampling(max_tokens=3))
        assert ticket.transfer is None
        answer = await collect(client.generate(worker.http, ticket, PrefillPath.LOCAL))
        assert len(answer.token_ids) == 3


# -- answers that end early ------------------------------------------------------------------------


def pieces(*texts: str | bytes) -> StubSettings:
    return StubSettings(pieces=tuple(t.encode() if isinstance(t, str) else t for t in texts))


@pytest.mark.parametrize(
    ("settings", "stop", "max_tokens", "text", "tokens", "reason"),
    [
        (pieces("E", "ND", "more"), ("END",), 9, "", 2, FinishReason.STOP),
        (pieces("a", "a", "a", "b", "c"), ("aab",), 9, "a", 4, FinishReason.STOP),
        (pieces("EN", "X", "!"), ("END",), 9, "ENX!", 4, FinishReason.STOP),
        (pieces("say ", "STOP", "x"), ("STOP", "STOPPED"), 9, "say ", 2, FinishReason.STOP),
        (pieces("before END after", "x"), ("END",), 9, "before ", 1, FinishReason.STOP),
        (pieces(), (), 9, "", 1, FinishReason.STOP),
        (pieces("one"), (), 9, "one", 2, FinishReason.STOP),
        (pieces("one", "two"), (), 2, "onetwo", 2, FinishReason.LENGTH),
        (
            pieces(*"👩🏽‍🚀한".encode().split(b"\x00"), *[bytes([b]) for b in "é한🙂".encode()]),
            (),
            99,
            "👩🏽‍🚀한é한🙂",
            11,
            FinishReason.STOP,
        ),
        (pieces(*[bytes([b]) for b in "🙂".encode()]), (), 3, "�", 3, FinishReason.LENGTH),
        (pieces("a", b"\xff", "b"), (), 9, "a�b", 4, FinishReason.STOP),
        (pieces("EN", "D"), ("END",), 1, "EN", 1, FinishReason.LENGTH),
    ],
)
async def test_both_paths_end_alike(client, settings, stop, max_tokens, text, tokens, reason):
    """F03, F04, F05: limits, stop strings and characters that span tokens, also across the hand-off."""
    sampling = Sampling(max_tokens=max_tokens, temperature=0.0, stop=stop)
    async with stub_fleet(settings=settings) as fleet:
        prefill, decode = fleet.prefill[0].http, fleet.decode[0].http
        for answer in (
            await client.answer_here(decode, "a prompt", sampling),
            await client.answer_by_handoff(prefill, decode, "a prompt", sampling),
        ):
            assert (answer.text, len(answer.token_ids)) == (text, tokens)
            assert isinstance(answer.end, Finished)
            assert (answer.end.reason, answer.end.completion_tokens) == (reason, tokens)
        await fleet.settled()


@pytest.mark.parametrize(
    ("settings", "sampling"),
    [
        (None, Sampling(max_tokens=1)),
        (pieces(), Sampling(max_tokens=8)),
        (pieces("END"), Sampling(max_tokens=8, stop=("END",))),
    ],
)
async def test_an_answer_that_ends_with_its_first_token_frees_decode_at_once(client, settings, sampling):
    """F03: nothing waits for the lease."""
    async with stub_fleet(settings=settings) as fleet:
        prefill, decode = fleet.prefill[0], fleet.decode[0]
        ticket = await client.reserve(decode.http, TextPrompt(text="a prompt"), sampling)
        assert decode.load.kv_blocks_used > 0
        answer = await collect(client.prefill(prefill.http, ticket, sampling))
        assert isinstance(answer.end, Finished)
        await fleet.settled(within_s=2)


async def test_the_first_token_is_not_sent_twice(fleet, client):
    sampling = Sampling(max_tokens=6, temperature=0.0)
    prefill, decode = fleet.prefill[0].http, fleet.decode[0].http
    ticket = await client.reserve(decode, "a prompt", sampling)
    first = await collect(client.prefill(prefill, ticket, sampling))
    rest = await collect(client.generate(decode, ticket, PrefillPath.HANDOFF))
    assert (len(first.token_ids), len(rest.token_ids)) == (1, 5)
