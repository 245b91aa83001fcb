"""The whole engine on tiny models: it answers what transformers' `generate` answers, however the work is cut."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import TextPrompt
from inference.contracts.sampling import Sampling
from inference.contracts.specs import EngineSettings
from inference.contracts.states import FinishReason, Role
from inference.engine import loader, native
from inference.engine.interface import KVHandle, Progress
from inference.engine.native import NativeEngine
from inference.testing.tiny_model import END_ID, FAMILIES, VOCAB_SIZE
from tests.inference.engine.conftest import EngineBuilder
from tests.inference.engine.prompts import ANSWER, PROMPTS, unending
from tests.inference.engine.recorder import Recorder, answer, greedy, hand_over, submit


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


class Copying(Recorder):
    """Copies the KV of what it is told of at once, while the engine's step is under way."""

    def __init__(self, source: NativeEngine, origin: KVHandle, target: NativeEngine, place: KVHandle) -> None:
        super().__init__(ends_with_prefill=True)
        self._source, self._origin, self._target, self._place = source, origin, target, place

    def progress(self, progress: Progress) -> None:
        super().progress(progress)
        what = (progress.layers or range(self._source.info.layers), progress.start, progress.end)
        kv = b"".join(self._source.export_kv(self._origin, *what))
        self._target.import_kv(self._place, *what, memoryview(kv))


@pytest.mark.parametrize("family", FAMILIES)
def test_kv_of_a_layer_is_complete_when_it_is_told(family, start_engine: EngineBuilder, tiny_model, generated) -> None:
    prefill, decode = [start_engine(tiny_model(family), prefill_chunk_tokens=16) for _ in range(2)]
    for prompt, expected in zip(PROMPTS, generated(family), strict=True):
        origin, place = prefill.reserve(len(prompt)), decode.reserve(len(prompt) + ANSWER)
        first, rest = Copying(prefill, origin, decode, place), Recorder()
        prefill.prefill(origin, prompt, unending(), first, report_progress=True, by_layer=True)
        first.wait()
        prefill.release(origin)
        chunks = [(start, min(start + 16, len(prompt))) for start in range(0, len(prompt), 16)]
        assert [(told.start, told.end, told.layers) for told in first.chunks] == [
            (*chunk, range(layer, layer + 1)) for chunk in chunks for layer in range(prefill.info.layers)
        ]
        decode.resume(place, prompt, tuple(first.ids), unending(), rest)
        assert first.ids + rest.wait().ids == expected
        decode.release(place)


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
        engine.import_kv(handle, range(4), 0, 16, memoryview(b"".join(data)))
    with pytest.raises(ValueError, match="not reserved"):
        engine.generate(handle, [1], unending(1), Recorder())


def test_kv_bytes_per_token_are_what_is_exported(start_engine: EngineBuilder) -> None:
    engine = start_engine()
    handle = engine.reserve(20)
    exported = engine.export_kv(handle, range(engine.info.layers), 0, 20)
    assert sum(row.nbytes for row in exported) == 20 * engine.info.kv_bytes_per_token == 20 * 4 * 2 * 2 * 16 * 4


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


def test_every_role_is_taken_on_by_a_running_engine_without_loading_again(
    monkeypatch: pytest.MonkeyPatch, start_engine: EngineBuilder, generated
) -> None:
    loads: list[str] = []
    monkeypatch.setattr(native, "load", lambda path, *more: (loads.append(path), loader.load(path, *more))[1])
    engine, other = start_engine(role=Role.PREFILL, prefix_cache=False), start_engine(prefix_cache=False)
    for role in (Role.DECODE, Role.UNIFIED, Role.PREFILL):
        engine.switch_role(role)
        if role is not Role.PREFILL:
            assert answer(engine, PROMPTS[8], unending()).ids == generated("llama")[8]
        source, target = (other, engine) if role is Role.DECODE else (engine, other)
        assert hand_over(source, target, PROMPTS[7], unending()).ids == generated("llama")[7]
    assert len(loads) == 2
    assert engine.load().kv_blocks_used == 0


def test_the_log_says_what_was_chosen_and_why(start_engine: EngineBuilder) -> None:
    with structlog.testing.capture_logs() as lines:
        start_engine(threads=0)
    (threads,) = [line for line in lines if line["event"] == "threads chosen"]
    (model,) = [line for line in lines if line["event"] == "model loaded"]
    (ready,) = [line for line in lines if line["event"] == "engine ready"]
    assert threads["reason"]
    assert threads["threads"] == ready["threads"]
    assert (model["dtype"], model["dtype_reason"]) == ("torch.float32", "the model was not stored in bfloat16")
    assert model["packing"]["reason"] == "no layer is large enough"
    assert "answers by" in model["attention"]


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
