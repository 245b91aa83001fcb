"""The same answers on a GPU, and KV that goes from one to another unchanged."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from inference.engine.native import NativeEngine
from inference.testing.tiny_model import FAMILIES
from tests.inference.engine.conftest import EngineBuilder
from tests.inference.engine.prompts import ANSWER, PROMPTS
from tests.inference.engine.recorder import Recorder, answer, greedy, hand_over, submit


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_on_a_gpu_equal_generate(family: str, start_engine: EngineBuilder, tiny_model) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_model(family), dtype=torch.float32).to("cuda:0")
    model.generation_config.eos_token_id = None
    expected = [
        model.generate(torch.tensor([p], device="cuda:0"), max_new_tokens=ANSWER, do_sample=False)[0, len(p) :].tolist()
        for p in PROMPTS
    ]
    settings = {"device": "cuda:0", "dtype": "float32", "prefill_chunk_tokens": 16}
    prefill, decode = start_engine(tiny_model(family), **settings), start_engine(tiny_model(family), **settings)
    sampling = greedy(ANSWER, ignore_eos=True)
    running = [submit(decode, prompt, sampling) for prompt in PROMPTS]
    assert [sink.wait().ids for _, sink in running] == expected
    for handle, _ in running:
        decode.release(handle)
    assert [hand_over(prefill, decode, prompt, sampling).ids for prompt in PROMPTS] == expected


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "mixtral"])
def test_half_precision_over_pages_answers_alike_alone_and_handed_over(
    family: str, start_engine: EngineBuilder, tiny_model
) -> None:
    """With blocks of 256 tokens, which every kernel takes as pages."""
    settings = {"device": "cuda:0", "dtype": "bfloat16", "block_size": 256, "kv_tokens": 256 * 32}
    prefill, decode = start_engine(tiny_model(family), **settings), start_engine(tiny_model(family), **settings)
    sampling = greedy(ANSWER, ignore_eos=True)
    handed_over = [hand_over(prefill, decode, prompt, sampling).ids for prompt in PROMPTS]
    assert handed_over == [answer(decode, prompt, sampling).ids for prompt in PROMPTS]


def test_half_precision_is_the_default_on_a_gpu(start_engine: EngineBuilder) -> None:
    engine = start_engine(device="cuda:0")
    assert engine.info.kv_bytes_per_token == 4 * 2 * 2 * 16 * 2
    assert len(answer(engine, PROMPTS[7], greedy(ANSWER, ignore_eos=True)).ids) == ANSWER


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_kv_that_was_imported_is_exported_byte_for_byte(start_engine: EngineBuilder, dtype: str) -> None:
    """Also into blocks that are not neighbours."""
    source, target = (start_engine(device="cuda:0", dtype=dtype, kv_tokens=512) for _ in range(2))
    assert source.info.fingerprint == target.info.fingerprint
    prompt, layers = PROMPTS[8], range(source.info.layers)
    held = _fragment(target)
    origin, copy = source.reserve(len(prompt)), target.reserve(len(prompt))
    sink = Recorder(ends_with_prefill=True)
    source.prefill(origin, prompt, greedy(2), sink, report_progress=True)
    assert sink.wait().error is None
    kv = b"".join(source.export_kv(origin, layers, 0, len(prompt)))
    assert len(kv) == len(prompt) * source.info.kv_bytes_per_token
    target.import_kv(copy, layers, 0, len(prompt), memoryview(kv))
    assert b"".join(target.export_kv(copy, layers, 0, len(prompt))) == kv
    for handle in (copy, *held):
        target.release(handle)


def _fragment(engine: NativeEngine) -> list:
    """Leave free only every other block; the reservations in between."""
    info = engine.info
    handles = [engine.reserve(info.block_size) for _ in range(info.kv_blocks_total)]
    for handle in handles[::2]:
        engine.release(handle)
    return handles[1::2]
