"""KV that several requests or answers share, on tiny models: they are answered as if they shared nothing."""

from __future__ import annotations

import random
import time

import msgspec
import pytest
import torch
from transformers import AutoModelForCausalLM

from inference.contracts.sampling import Sampling
from inference.contracts.timings import Counter, Window
from inference.engine.interface import Token
from inference.engine.native import NativeEngine
from inference.testing.tiny_model import FAMILIES
from tests.inference.engine.conftest import EngineBuilder
from tests.inference.engine.prompts import ANSWER, PROMPTS, prompts, unending
from tests.inference.engine.recorder import Recorder, answer, start_hand_over, submit


class Several(Recorder):
    """Waits for `answers` answers: to their ends, or for so many `tokens` of each."""

    def __init__(self, answers: int, tokens: int | None = None) -> None:
        super().__init__()
        self._left = answers if tokens is None else answers * tokens
        self._counts_all = tokens is not None

    def token(self, token: Token) -> None:
        self.tokens.append(token)
        self._left -= self._counts_all or token.finish is not None
        if not self._left:
            self.end()


# -- KV of equal beginnings -----------------------------------------------------------------------------


def tokens_counted(engine: NativeEngine) -> tuple[int, int]:
    """Prompt tokens computed and prompt tokens cached since the last call."""
    window = Window(second=0, source="", deployment="")
    engine.drain_window(window)
    return window.counters.get(Counter.PROMPT_TOKENS, 0), window.counters.get(Counter.CACHED_TOKENS, 0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunk", [0, 7], ids=["whole", "chunks of 7"])
def test_a_prompt_read_from_the_cache_is_answered_as_one_that_was_computed(
    family, chunk, start_engine: EngineBuilder, tiny_model, generated
) -> None:
    engine = start_engine(tiny_model(family), prefill_chunk_tokens=chunk)
    for _ in range(2):
        assert [answer(engine, prompt, unending()).ids for prompt in PROMPTS] == generated(family)
        computed, cached = tokens_counted(engine)
        assert computed + cached == sum(map(len, PROMPTS))
    assert cached == sum((len(prompt) - 1) // 16 * 16 for prompt in PROMPTS) > computed
    assert engine.load().kv_blocks_used == 0


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_a_conversation_goes_on_from_its_own_answer(family, start_engine: EngineBuilder, tiny_model) -> None:
    cached, fresh = start_engine(tiny_model(family)), start_engine(tiny_model(family), prefix_cache=False)
    turn = PROMPTS[7]
    for question in PROMPTS[2:5]:
        expected = answer(fresh, turn, unending())
        assert answer(cached, turn, unending()).ids == expected.ids
        turn = [*turn, *expected.ids, *question]
    computed, taken = tokens_counted(cached)
    assert taken > computed
    assert tokens_counted(fresh)[1] == 0


def test_requests_that_run_share_what_is_read_already(start_engine: EngineBuilder, tiny_model) -> None:
    engine, fresh = start_engine(), start_engine(prefix_cache=False)
    system = PROMPTS[8]
    running = [submit(engine, system, unending(60))]
    while not running[0][1].tokens:
        time.sleep(0.001)
    running += [submit(engine, [*system, *prompt], unending()) for prompt in PROMPTS[:6]]
    assert [handle.cached_tokens for handle, _ in running] == [0, *[128] * 6]
    for (_, sink), prompt in zip(running[1:], PROMPTS, strict=False):
        assert sink.wait().ids == answer(fresh, [*system, *prompt], unending()).ids


def test_a_cache_under_pressure_answers_alike(start_engine: EngineBuilder, generated) -> None:
    """Blocks are taken from remembered prompts all the time."""
    engine = start_engine(kv_tokens=320, prefill_chunk_tokens=32)
    draw = random.Random(7)
    for _ in range(60):
        which = draw.randrange(len(PROMPTS))
        assert answer(engine, PROMPTS[which], unending()).ids == generated("llama")[which]
    assert tokens_counted(engine)[1] > 0


def test_a_prompt_handed_over_is_remembered_where_every_layer_has_all_of_it(start_engine, tiny_model) -> None:
    for family, remembered in (("llama", 128), ("gemma3_text", 0)):
        prefill, decode = start_engine(tiny_model(family)), start_engine(tiny_model(family))
        handed_over, sink = start_hand_over(prefill, decode, PROMPTS[8], unending(), cached=True)
        expected = sink.wait().ids
        decode.release(handed_over)
        handle = decode.reserve(160, PROMPTS[8])
        assert handle.cached_tokens == remembered
        decode.release(handle)
        assert answer(decode, PROMPTS[8], unending()).ids == expected


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_decode_is_handed_only_what_it_does_not_remember(family, start_engine: EngineBuilder, tiny_model) -> None:
    prefill, decode = start_engine(tiny_model(family), prefill_chunk_tokens=16), start_engine(tiny_model(family))
    for prompt in (PROMPTS[8][:50], PROMPTS[8]):
        expected = answer(start_engine(tiny_model(family)), prompt, unending()).ids
        handle, sink = start_hand_over(prefill, decode, prompt, unending(), cached=True)
        assert sink.wait().ids == expected
        assert answer(decode, prompt[:70], unending()).error is None
        decode.release(handle)
    assert handle.cached_tokens == 48


# -- several answers to one prompt ---------------------------------------------------------------------------


def answers_of(sink: Recorder, count: int) -> list[list[int]]:
    ids: list[list[int]] = [[] for _ in range(count)]
    for token in sink.tokens:
        ids[token.answer].append(token.token_id)
    return ids


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
@pytest.mark.parametrize("chunk", [0, 16], ids=["whole", "chunks of 16"])
def test_several_answers_share_a_prompt_and_equal_generate(
    family, chunk, start_engine: EngineBuilder, tiny_model, generated
) -> None:
    engine = start_engine(tiny_model(family), prefill_chunk_tokens=chunk, max_running=4)
    for prompt, expected in zip(PROMPTS, generated(family), strict=True):
        sampling, sink = unending(), Several(3)
        sampling = msgspec.structs.replace(sampling, n=3)
        handle = engine.reserve(len(prompt) + ANSWER, prompt, answers=3)
        engine.generate(handle, prompt, sampling, sink)
        assert answers_of(sink.wait(), 3) == [expected] * 3
        engine.release(handle)
    assert engine.load().kv_blocks_used == 0


def test_several_drawn_answers_are_the_same_handed_over(start_engine: EngineBuilder) -> None:
    prefill, decode = start_engine(prefill_chunk_tokens=16), start_engine()
    sampling = Sampling(max_tokens=ANSWER, temperature=1.0, seed=3, n=3, ignore_eos=True)
    prompt = PROMPTS[7]
    handle, here = decode.reserve(len(prompt) + ANSWER, answers=3), Several(3)
    decode.generate(handle, prompt, sampling, here)
    expected = answers_of(here.wait(), 3)
    assert expected[0] != expected[1] != expected[2]
    source, target = prefill.reserve(len(prompt)), decode.reserve(len(prompt) + ANSWER, answers=3)
    first, rest = Several(3, tokens=1), Several(3)
    prefill.prefill(source, prompt, sampling, first, report_progress=True)
    firsts = answers_of(first.wait(), 3)
    layers = range(decode.info.layers)
    decode.import_kv(target, layers, 0, len(prompt), prefill.export_kv(source, layers, 0, len(prompt)))
    decode.resume(target, prompt, tuple(ids[0] for ids in firsts), sampling, rest)
    assert [[*one, *more] for one, more in zip(firsts, answers_of(rest.wait(), 3), strict=True)] == expected


# -- many at once ----------------------------------------------------------------------------------------


def test_a_hundred_prompts_are_answered_alike_whichever_way(start_engine: EngineBuilder, tiny_model) -> None:
    """Alone by `generate`, in mixed batches, in chunks, by two engines, and from a warm cache."""
    draw = random.Random(11)
    beginnings = prompts(40, 70)
    asked = [
        [*draw.choice([[], *beginnings]), *[draw.randrange(256) for _ in range(draw.randrange(1, 60))]]
        for _ in range(100)
    ]
    model = AutoModelForCausalLM.from_pretrained(tiny_model("llama"))
    model.generation_config.eos_token_id = None
    expected = [
        model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :].tolist()
        for prompt in asked
    ]
    whole, chunked = start_engine(prefill_chunk_tokens=0, kv_tokens=16384), start_engine(prefill_chunk_tokens=24)
    together = [submit(whole, prompt, unending(12)) for prompt in asked]
    assert [sink.wait().ids for _, sink in together] == expected
    for handle, _ in together:
        whole.release(handle)
    assert [answer(chunked, prompt, unending(12)).ids for prompt in asked] == expected
    fresh = start_engine(prefix_cache=False, kv_tokens=16384)
    handed_over = [start_hand_over(chunked, fresh, prompt, unending(12)) for prompt in asked]
    assert [sink.wait().ids for _, sink in handed_over] == expected
    assert [answer(whole, prompt, unending(12)).ids for prompt in asked] == expected
