"""Which workers are presumed to have KV of which beginnings of prompts."""

from __future__ import annotations

import pytest

from inference.contracts.generation import HandoffDone, Ticket
from inference.contracts.generation import WorkerTimings as Timings
from inference.contracts.prompts import ChatMessage, ChatPrompt, TextPrompt, TokenPrompt
from inference.router.choosing.prefix_index import PrefixIndex
from inference.router.choosing.prompt_chain import BLOCK_BYTES, MOST_BLOCKS, PromptChain, chain_of
from inference.router.choosing.prompt_knowledge import PromptKnowledge

A, B = ("a", "1"), ("b", "1")
BLOCK = "x" * BLOCK_BYTES


def text(*blocks: str) -> PromptChain:
    return chain_of(TextPrompt(text="".join(block * BLOCK_BYTES for block in blocks)))


def chat(*turns: str, system: str = "Be brief.") -> ChatPrompt:
    roles = ("user", "assistant")
    messages = [ChatMessage(role="system", content=system)]
    messages += [ChatMessage(role=roles[number % 2], content=turn) for number, turn in enumerate(turns)]
    return ChatPrompt(messages=tuple(messages))


def test_equal_beginnings_of_prompts_are_equal_beginnings_of_chains() -> None:
    one, two = text("a", "b", "c"), text("a", "b", "d")
    assert one.blocks[:2] == two.blocks[:2]
    assert one.blocks[2] != two.blocks[2]
    assert text("b", "a").blocks[1] != text("a", "a").blocks[1], "a block stands for all before it"


def test_a_rest_that_fills_no_block_is_left_out_and_long_prompts_are_cut() -> None:
    assert chain_of(TextPrompt(text="short")).blocks == ()
    assert len(chain_of(TextPrompt(text=BLOCK * (MOST_BLOCKS + 9))).blocks) == MOST_BLOCKS


def test_the_next_turn_of_a_chat_begins_with_this_one() -> None:
    first, second = chain_of(chat("q" * 900)), chain_of(chat("q" * 900, "a" * 900, "and?"))
    assert second.blocks[: len(first.blocks)] == first.blocks
    assert first.blocks


def test_all_turns_of_a_conversation_are_one_session_and_another_question_is_another() -> None:
    assert chain_of(chat("q")).session == chain_of(chat("q", "a", "more")).session
    assert chain_of(chat("q")).session != chain_of(chat("other")).session
    assert chain_of(TokenPrompt(token_ids=(1, 2, 3))).session != chain_of(TokenPrompt(token_ids=(1, 2, 4))).session


def test_prompts_of_different_salts_share_nothing() -> None:
    prompt = TextPrompt(text=BLOCK * 4)
    assert not set(chain_of(prompt, "one").blocks) & set(chain_of(prompt, "two").blocks)


def test_what_was_sent_somewhere_is_presumed_there() -> None:
    index = PrefixIndex(100)
    index.note(text("a", "b"), A)
    index.note(text("a", "b", "c", "d"), B)
    assert index.held(text("a", "b", "c", "x")) == {A: 2 * BLOCK_BYTES, B: 3 * BLOCK_BYTES}
    assert index.held(text("x")) == {}


def test_what_a_worker_reports_corrects_the_presumption() -> None:
    index = PrefixIndex(100)
    chain = text("a", "b", "c", "d")
    index.note(chain, A)
    index.note(chain, A, BLOCK_BYTES + 1)
    assert index.held(chain) == {A: BLOCK_BYTES}
    index.note(chain, A, 0)
    assert index.held(chain) == {}
    assert len(index) == 0


def test_the_least_lately_used_is_forgotten_ends_before_beginnings() -> None:
    index = PrefixIndex(4)
    old, new = text("a", "b", "c"), text("x", "y")
    index.note(old, A)
    index.note(new, B)
    assert len(index) == 4
    assert index.held(old) == {A: 2 * BLOCK_BYTES}
    assert index.held(new) == {B: 2 * BLOCK_BYTES}


def test_of_what_everybody_has_only_some_holders_are_remembered() -> None:
    index = PrefixIndex(100)
    chain = text("a")
    for number in range(200):
        index.note(chain, (f"w{number}", "1"))
    held = index.held(chain)
    assert len(held) == 16
    assert ("w199", "1") in held


def test_of_workers_that_are_gone_nothing_is_presumed_and_they_take_nobodys_place() -> None:
    index = PrefixIndex(100)
    beginning, whole = text("a"), text("a", "b")
    index.note(beginning, A)
    for number in range(16):
        index.note(whole, (f"w{number}", "1"))
    index.forget_all_but({A})
    assert index.held(whole) == {}, "the last sixteen had pushed it out"
    index.note(beginning, A)
    assert index.held(whole) == {A: BLOCK_BYTES}
    index.note(whole, B)
    assert index.held(whole) == {A: BLOCK_BYTES, B: 2 * BLOCK_BYTES}


def test_a_worker_that_comes_back_has_nothing() -> None:
    index = PrefixIndex(100)
    index.note(text("a", "b"), A)
    index.forget_all_but(())
    assert index.held(text("a", "b")) == {}
    index.note(text("a", "b"), A, BLOCK_BYTES)
    assert index.held(text("a", "b")) == {A: BLOCK_BYTES}


def ticket(tokens: int, cached: int) -> Ticket:
    return Ticket(
        ticket_id="t",
        request_id="r",
        worker_id="a",
        fingerprint="f",
        token_ids=tuple(range(tokens)),
        cached_tokens=cached,
        max_tokens=1,
        lease_s=1,
        transfer=None,
    )


def test_tokens_of_a_prompt_are_estimated_as_its_deployment_taught() -> None:
    knowledge = PromptKnowledge(100)
    assert knowledge.tokens("chat", 400) == 101
    chain = text("a")
    for _ in range(100):
        knowledge.ticket_came("chat", chain, A, ticket(BLOCK_BYTES, 0))
    assert knowledge.tokens("chat", 400) == pytest.approx(401, abs=1)
    assert knowledge.tokens("other", 400) == 101


def test_a_worker_that_keeps_nothing_is_soon_not_believed_to() -> None:
    knowledge = PromptKnowledge(100)
    chain = text("a", "b", "c", "d")
    for _ in range(40):
        knowledge.was_read(chain, A)
        knowledge.was_read(chain, B)
        knowledge.ticket_came("chat", chain, A, ticket(256, 0))
        knowledge.ticket_came("chat", chain, B, ticket(256, 255))
    knowledge.was_read(chain, A)
    knowledge.was_read(chain, B)
    held = knowledge.held("chat", chain)
    assert held[A] < 10
    assert held[B] == 256


def test_a_prefill_worker_that_handed_over_has_the_prompt() -> None:
    knowledge = PromptKnowledge(100)
    chain = text("a", "b")
    done = HandoffDone(tokens=128, bytes=1, transfer_s=0.1, timings=Timings(), cached_tokens=0)
    knowledge.handed_off(chain, A, done, 128)
    assert knowledge.held("chat", chain) == {A: 128}


def test_what_deployments_and_workers_taught_goes_with_them() -> None:
    knowledge = PromptKnowledge(100)
    chain = text("a", "b")
    for name, worker in (("chat", A), ("gone", B)):
        knowledge.ticket_came(name, chain, worker, ticket(2 * BLOCK_BYTES, 0))
        knowledge.was_read(chain, worker)
    knowledge.forget_all_but({A}, {"chat"})
    assert (knowledge.tokens("chat", 400), knowledge.tokens("gone", 400)) == (401, 101)
    assert set(knowledge.held("chat", chain)) == {A}
