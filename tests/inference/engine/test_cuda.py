"""The same answers on a GPU. Skipped without one."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from inference.testing.tiny_model import FAMILIES
from tests.inference.engine.conftest import EngineBuilder
from tests.inference.engine.recorder import answer, greedy, hand_over, submit
from tests.inference.engine.test_native import ANSWER, PROMPTS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


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


def test_half_precision_is_the_default_on_a_gpu(start_engine: EngineBuilder) -> None:
    engine = start_engine(device="cuda:0")
    assert engine.info.kv_bytes_per_token == 4 * 2 * 2 * 16 * 2
    assert len(answer(engine, PROMPTS[7], greedy(ANSWER, ignore_eos=True)).ids) == ANSWER
