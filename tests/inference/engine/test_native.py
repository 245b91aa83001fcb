"""The whole engine on tiny models: it answers what transformers' `generate` answers, however the work is cut."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Sampling, TextPrompt
from inference.contracts.specs import EngineSettings
from inference.contracts.states import FinishReason, Role
from inference.contracts.timings import Counter, Window
from inference.engine.interface import Token
from inference.engine.native import NativeEngine
from inference.testing.tiny_model import END_ID, FAMILIES, VOCAB_SIZE
from tests.inference.engine.conftest import EngineBuilder
from tests.inference.engine.recorder import Recorder, answer, greedy, hand_over, start_hand_over, submit

ANSWER = 24


def prompts(*lengths: int) -> list[list[int]]:
    draw = random.Random(4)
    return [[draw.randrange(256) for _ in range(length)] for length in lengths]


#: One token, around a block of 16, around the windows of 24 and 32, and beyond several of both.
PROMPTS = prompts(1, 2, 15, 16, 17, 24, 33, 70, 131)


@pytest.fixture(scope="session")
def generated(tiny_model: Callable[[str], Path]) -> Callable[[str], list[list[int]]]:
    """What `generate` answers to `PROMPTS`, per family."""
    known: dict[str, list[list[int]]] = {}

    def answers(family: str) -> list[list[int]]:
        if family not in known:
            model = AutoModelForCausalLM.from_pretrained(tiny_model(family))
            model.generation_config.eos_token_id = None
            known[family] = [
                model.generate(torch.tensor([prompt]), max_new_tokens=ANSWER, do_sample=False)[
                    0, len(prompt) :
                ].tolist()
                for prompt in PROMPTS
            ]
        return known[family]

    return answers


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


def unending(max_tokens: int = ANSWER) -> Sampling:
    return greedy(max_tokens, ignore_eos=True)


def test_the_reference_is_worth_comparing_with(generated: Callable[[str], list[list[int]]]) -> None:
    for family in FAMILIES:
        assert len({token for tokens in generated(family) for token in tokens}) > 20


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunk", [0, 7], ids=["whole", "chunks of 7"])
def test_answers_one_at_a_time_equal_generate(
    family, chunk, start_engine: EngineBuilder, tiny_model, generated
) -> None:
    engine = start_engine(tiny_model(family), prefill_chunk_tokens=chunk)
    assert [answer(engine, prompt, unending()).ids for prompt in PROMPTS] == generated(family)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunk", [7, 256], ids=["chunks of 7", "chunks of 256"])
def test_answers_in_one_batch_equal_generate(family, chunk, start_engine: EngineBuilder, tiny_model, generated) -> None:
    engine = start_engine(tiny_model(family), prefill_chunk_tokens=chunk, max_running=4)
    running = [submit(engine, prompt, unending()) for prompt in PROMPTS]
    assert [sink.wait().ids for _, sink in running] == generated(family)


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_from_a_fragmented_arena_equal_generate(family, start_engine, tiny_model, generated) -> None:
    engine = start_engine(tiny_model(family), block_size=4, prefill_chunk_tokens=16)
    singles = [engine.reserve(4) for _ in range(engine.info.kv_blocks_total)]
    for handle in singles[::2]:
        engine.release(handle)
    for prompt, expected in zip(PROMPTS, generated(family), strict=True):
        assert answer(engine, prompt, unending()).ids == expected


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers_at_once", [1, 3, 4])
def test_answers_of_two_engines_equal_generate(
    family, layers_at_once, start_engine: EngineBuilder, tiny_model, generated
) -> None:
    prefill = start_engine(tiny_model(family), role=Role.PREFILL, prefill_chunk_tokens=16)
    decode = start_engine(tiny_model(family), role=Role.DECODE, kv_tokens=512)
    wall = decode.reserve(40)  # so that KV lands at other slots than it comes from
    for prompt, expected in zip(PROMPTS, generated(family), strict=True):
        assert hand_over(prefill, decode, prompt, unending(), layers_at_once).ids == expected
    decode.release(wall)
    assert prefill.load().kv_blocks_used == decode.load().kv_blocks_used == 0


def test_a_handed_over_request_joins_a_running_batch(start_engine: EngineBuilder, generated) -> None:
    prefill, decode = start_engine(), start_engine()
    running = submit(decode, PROMPTS[5], unending())[1]
    handed_over = hand_over(prefill, decode, PROMPTS[8], unending())
    assert handed_over.ids == generated("llama")[8]
    assert running.wait().ids == generated("llama")[5]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_max_tokens_is_exact_whoever_reads_the_prompt(limit: int, start_engine: EngineBuilder, generated) -> None:
    prefill, decode = start_engine(), start_engine()
    for sink in (answer(decode, PROMPTS[6], unending(limit)), hand_over(prefill, decode, PROMPTS[6], unending(limit))):
        assert sink.ids == generated("llama")[6][:limit]
        assert [token.finish for token in sink.tokens] == [None] * (limit - 1) + [FinishReason.LENGTH]


def test_an_answer_of_n_tokens_fits_a_reservation_of_prompt_and_n_minus_1(start_engine: EngineBuilder) -> None:
    engine = start_engine(block_size=1)
    handle, sink = engine.reserve(10 + 4), Recorder()
    engine.generate(handle, PROMPTS[8][:10], unending(5), sink)
    assert len(sink.wait().ids) == 5
    engine.release(handle)
    handle = engine.reserve(10 + 3)
    with pytest.raises(ValueError, match="14 tokens do not fit"):
        engine.generate(handle, PROMPTS[8][:10], unending(5), Recorder())


def first_token_ending(model_dir: Path, tmp_path: Path, prompt: list[int]) -> Path:
    """A copy of a model whose greedy first token for `prompt` is an end of sequence."""
    model = AutoModelForCausalLM.from_pretrained(model_dir)
    first = model.generate(torch.tensor([prompt]), max_new_tokens=1, do_sample=False)[0, -1].item()
    model.generation_config.eos_token_id = [END_ID, first]
    model.save_pretrained(tmp_path / "ending")
    AutoTokenizer.from_pretrained(model_dir).save_pretrained(tmp_path / "ending")
    return tmp_path / "ending"


def test_an_end_of_sequence_as_first_token_ends_the_answer_on_the_prefill_side(
    start_engine: EngineBuilder, tiny_model, tmp_path: Path
) -> None:
    path = first_token_ending(tiny_model("llama"), tmp_path, PROMPTS[6])
    prefill, decode = start_engine(path), start_engine(path)
    sink = hand_over(prefill, decode, PROMPTS[6], greedy(5))
    assert [(token.text, token.finish) for token in sink.tokens] == [("", FinishReason.STOP)]
    handle = decode.reserve(100)
    with pytest.raises(ValueError, match="ended with its first token"):
        decode.resume(handle, PROMPTS[6], (sink.ids[0],), greedy(5), Recorder())


@pytest.mark.parametrize("sampling", [{"temperature": 1.0}, {"temperature": 0.8, "top_p": 0.9}, {"top_k": 7}])
def test_a_seeded_answer_is_the_same_handed_over_and_in_a_batch(sampling, start_engine: EngineBuilder) -> None:
    prefill, decode = start_engine(prefill_chunk_tokens=16), start_engine()
    settings = Sampling(max_tokens=ANSWER, seed=11, ignore_eos=True, **sampling)
    alone = answer(decode, PROMPTS[7], settings)
    others = [submit(decode, prompt, settings) for prompt in PROMPTS[:4]]
    assert answer(decode, PROMPTS[7], settings).ids == alone.ids
    assert hand_over(prefill, decode, PROMPTS[7], settings).ids == alone.ids
    assert all(sink.wait().error is None for _, sink in others)
    other_seed = Sampling(max_tokens=ANSWER, seed=12, ignore_eos=True, **sampling)
    assert answer(decode, PROMPTS[7], other_seed).ids != alone.ids


@pytest.mark.parametrize("family", FAMILIES)
def test_streamed_text_adds_up_and_both_sides_agree_on_it(family, start_engine, tiny_model, generated) -> None:
    """The tiny models write broken UTF-8 all the time (F04)."""
    prefill, decode = start_engine(tiny_model(family)), start_engine(tiny_model(family))
    tokenizer = AutoTokenizer.from_pretrained(tiny_model(family))
    for prompt, expected in zip(PROMPTS, generated(family), strict=True):
        whole = tokenizer.decode(expected, skip_special_tokens=True)
        assert answer(decode, prompt, unending()).text == whole
        assert hand_over(prefill, decode, prompt, unending()).text == whole


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_a_stop_string_ends_both_ways_alike_and_does_not_leak(length: int, start_engine, tiny_model, generated) -> None:
    """The stop string is cut from the answer itself, from its very start on (F05)."""
    prefill, decode = start_engine(), start_engine()
    whole = AutoTokenizer.from_pretrained(tiny_model("llama")).decode(generated("llama")[7], skip_special_tokens=True)
    for at in range(6):
        stop = whole[at : at + length]
        sampling = greedy(ANSWER, ignore_eos=True, stop=(stop,))
        alone, handed_over = answer(decode, PROMPTS[7], sampling), hand_over(prefill, decode, PROMPTS[7], sampling)
        assert alone.text == handed_over.text == whole[: whole.find(stop)]
        assert alone.tokens[-1].finish is handed_over.tokens[-1].finish is FinishReason.STOP
        assert alone.ids == handed_over.ids == generated("llama")[7][: len(alone.ids)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_hands_over_the_same_bytes_and_answers(dtype: str, start_engine: EngineBuilder) -> None:
    prefill, decode = (
        start_engine(dtype=dtype, prefill_chunk_tokens=0),
        start_engine(dtype=dtype, prefill_chunk_tokens=0),
    )
    assert hand_over(prefill, decode, PROMPTS[7], unending()).ids == answer(decode, PROMPTS[7], unending()).ids


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


def test_releasing_in_mid_answer_frees_the_blocks_and_spares_the_others(start_engine: EngineBuilder, generated) -> None:
    engine = start_engine()
    leaving, _ = submit(engine, PROMPTS[7], unending(400))
    staying, sink = submit(engine, PROMPTS[8], unending())
    engine.release(leaving)
    engine.release(leaving)
    late = answer(engine, PROMPTS[6], unending())
    assert sink.wait().ids == generated("llama")[8]
    assert late.ids == generated("llama")[6]
    engine.release(staying)
    load = engine.load()
    assert (load.running, load.waiting, load.kv_blocks_used) == (0, 0, 0)


def test_kv_of_a_released_handle_is_neither_read_nor_written(start_engine: EngineBuilder) -> None:
    engine = start_engine()
    handle = engine.reserve(20)
    data = engine.export_kv(handle, range(4), 0, 16)
    engine.release(handle)
    with pytest.raises(ValueError, match="not reserved"):
        engine.export_kv(handle, range(4), 0, 16)
    with pytest.raises(ValueError, match="not reserved"):
        engine.import_kv(handle, range(4), 0, 16, data)
    with pytest.raises(ValueError, match="not reserved"):
        engine.generate(handle, [1], unending(1), Recorder())


def test_kv_bytes_per_token_are_what_is_exported(start_engine: EngineBuilder) -> None:
    engine = start_engine()
    handle = engine.reserve(20)
    exported = engine.export_kv(handle, range(engine.info.layers), 0, 20)
    assert exported.nbytes == 20 * engine.info.kv_bytes_per_token == 20 * 4 * 2 * 2 * 16 * 4


@pytest.mark.parametrize(
    ("token_ids", "sampling", "param"),
    [
        ([], unending(1), "prompt"),
        ([VOCAB_SIZE], unending(1), "prompt"),
        ([-1], unending(1), "prompt"),
        ([1], unending(0), "max_tokens"),
        ([1], greedy(1, stop=("",)), "stop"),
    ],
)
def test_a_request_that_can_not_be_run_is_refused_before_it_starts(token_ids, sampling, param, start_engine) -> None:
    engine = start_engine()
    with pytest.raises(TandemError) as caught:
        engine.generate(engine.reserve(10), token_ids, sampling, Recorder())
    assert (caught.value.code, caught.value.param) == (ErrorCode.INVALID_REQUEST, param)


def test_prompts_are_tokenized_in_any_thread(start_engine: EngineBuilder) -> None:
    engine = start_engine()
    running = submit(engine, PROMPTS[4], unending(200))[1]
    results: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: results.append(engine.tokenize(TextPrompt(text="abc" * 200)))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(result == results[0] for result in results)
    assert running.wait().error is None


def test_the_context_is_the_least_of_model_setting_and_arena(start_engine: EngineBuilder) -> None:
    assert start_engine().info.context_length == 1024
    assert start_engine(max_model_len=100).info.context_length == 100
    assert start_engine(kv_tokens=250).info.context_length == 240


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_model_len": 1025}, "max_model_len is 1025, but the model was made for 1024 tokens"),
        ({"kv_tokens": 15}, "kv_tokens is 15; the least is 16"),
        ({"block_size": 0}, "block_size is 0; the least is 1"),
        ({"prefill_chunk_tokens": -1}, "prefill_chunk_tokens is -1; the least is 0"),
    ],
)
def test_settings_that_contradict_the_model_are_refused_for_good(settings, message, start_engine) -> None:
    with pytest.raises(TandemError, match=message) as caught:
        start_engine(**settings)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_missing_gpu_is_said_plainly(tiny_model, start_engine: EngineBuilder) -> None:
    with pytest.raises(RuntimeError, match="torch sees no CUDA device"):
        NativeEngine(str(tiny_model("llama")), "tiny", Role.UNIFIED, EngineSettings(), device="cuda:0").start()


def test_an_engine_that_never_started_can_be_stopped(tiny_model) -> None:
    engine = NativeEngine(str(tiny_model("llama")), "tiny", Role.UNIFIED, EngineSettings())
    assert engine.failure is None
    engine.stop()
    with pytest.raises(TandemError, match="not started"):
        engine.load()
