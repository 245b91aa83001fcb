"""The default model, with prompts of all kinds: one text, whichever way it is computed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.contracts.prompts import ChatMessage, ChatPrompt, Prompt, TextPrompt
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role
from inference.engine.native import NativeEngine
from tests.inference.engine.recorder import answer, greedy, start_hand_over, submit

pytestmark = pytest.mark.model

ANSWER = 12


def chat(content: str, system: str | None = None) -> ChatPrompt:
    turns = [("system", system)] if system else []
    return ChatPrompt(messages=tuple(ChatMessage(role=r, content=c) for r, c in [*turns, ("user", content)]))


LONG = "The river rose slowly that spring, and the people of the valley counted the days. " * 16

PROMPTS: list[Prompt] = [
    chat("What is the capital of France?"),
    chat("Hi"),
    chat("Write a Python function that adds two numbers."),
    chat("List three colours.", system="You answer in one line."),
    chat("대한민국의 수도는 어디입니까? 한국어로 대답해 주세요."),
    chat("Repeat after me: 👍🏽 👩‍👩‍👧‍👦 🇰🇷"),
    chat("Was ist die Hauptstadt von Österreich?"),
    chat("What is 17 + 25?"),
    chat("Summarise: " + LONG),
    chat("Translate to Korean: good morning"),
    TextPrompt(text="The"),
    TextPrompt(text="Once upon a time"),
    TextPrompt(text="def fibonacci(n):\n    "),
    TextPrompt(text='{"name": "Ada", "born": '),
    TextPrompt(text="안녕하세요. 저는"),
    TextPrompt(text="😀 😃 😄 "),
    TextPrompt(text="SELECT name FROM users WHERE "),
    TextPrompt(text="1, 1, 2, 3, 5, 8, "),
    TextPrompt(text=LONG),
    TextPrompt(text="   \n\n\t"),
]


#: Subjects and what is asked of them: with `PROMPTS`, a hundred prompts from 1 to some 330 tokens.
SUBJECTS = [
    "the moon",
    "bread",
    "a violin",
    "Seoul",
    "rust",
    "chess",
    "the number 7",
    "rain",
    "a queue",
    "Ada Lovelace",
]
FORMS = [
    "What is {}?",
    "Write one sentence about {}.",
    "Explain {} to a child of five, step by step, and give an example from daily life.",
    "Ist {} groß oder klein? Antworte auf Deutsch.",
    "Here is a list: {0}, {0}, {0}. How many entries does it have?",
]
ASKED = [chat(form.format(subject)) for subject in SUBJECTS for form in FORMS]
CONTINUED = [
    TextPrompt(text=start.format(subject))
    for subject in SUBJECTS
    for start in ("{} is", "A poem about {}:\n", "# {}\n\nHistory: ")
]
HUNDRED: list[Prompt] = [*PROMPTS, *ASKED, *CONTINUED]

#: Requests that run at a time in each of the ways, so that every batch mixes short, long, read and handed over ones.
TOGETHER = 20


def start(path: Path, **settings: object) -> NativeEngine:
    made = NativeEngine(str(path), "smol", Role.UNIFIED, EngineSettings(threads=1, kv_tokens=6144, **settings))
    made.start()
    return made


@pytest.fixture(scope="module")
def whole(default_model_dir: Path) -> Iterator[NativeEngine]:
    """Reads prompts whole."""
    made = start(default_model_dir, prefill_chunk_tokens=0)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def chunked(default_model_dir: Path) -> Iterator[NativeEngine]:
    made = start(default_model_dir, prefill_chunk_tokens=100)
    yield made
    made.stop()


def test_a_hundred_prompts_in_mixed_batches_equal_generate_token_for_token(
    whole: NativeEngine, chunked: NativeEngine, default_model_dir: Path
) -> None:
    assert len(HUNDRED) == 100
    model = AutoModelForCausalLM.from_pretrained(default_model_dir, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(default_model_dir)
    draw = random.Random(1)
    order = draw.sample(HUNDRED, len(HUNDRED))
    for group in (order[at : at + TOGETHER] for at in range(0, len(order), TOGETHER)):
        token_ids = [whole.tokenize(prompt) for prompt in group]
        running = {
            "chunked": [submit(chunked, ids, greedy(ANSWER)) for ids in token_ids],
            "unified": [submit(whole, ids, greedy(ANSWER)) for ids in token_ids],
        }
        running["handed over"] = [
            start_hand_over(chunked, whole, ids, greedy(ANSWER), layers_at_once=10) for ids in token_ids
        ]
        for at, ids in enumerate(token_ids):
            out = model.generate(torch.tensor([ids]), max_new_tokens=ANSWER, do_sample=False)[0, len(ids) :].tolist()
            text = tokenizer.decode(out, skip_special_tokens=True)
            for way, requests in running.items():
                sink = requests[at][1].wait()
                assert (sink.error, sink.ids, sink.text) == (None, out, text), f"{way}: {group[at]}"
        for way, requests in running.items():
            for handle, _ in requests:
                (chunked if way == "chunked" else whole).release(handle)
        assert (whole.load().kv_blocks_used, chunked.load().kv_blocks_used) == (0, 0)


def test_a_chat_answer_is_sensible_and_ends_by_itself(whole: NativeEngine) -> None:
    sink = answer(whole, whole.tokenize(PROMPTS[0]), greedy(40))
    assert sink.text == "The capital of France is Paris."


def test_a_prompt_with_a_template_starts_with_one_marker(whole: NativeEngine) -> None:
    ids = whole.tokenize(PROMPTS[1])
    assert ids[0] == whole.tokenize(TextPrompt(text="<|im_start|>"))[0]
    assert ids[1] != ids[0]
