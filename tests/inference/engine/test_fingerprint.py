from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from inference.testing.tiny_model import write_tiny_model
from tests.inference.engine.conftest import EngineBuilder


def test_two_engines_of_one_model_agree(start_engine: EngineBuilder, tiny_model: Callable, tmp_path: Path) -> None:
    copy = shutil.copytree(tiny_model("llama"), tmp_path / "copy")
    assert start_engine().info.fingerprint == start_engine(copy, kv_tokens=512).info.fingerprint


def test_whatever_changes_kv_changes_the_fingerprint(start_engine: EngineBuilder, tmp_path: Path) -> None:
    rope = {"rope_type": "default", "rope_theta": 5000.0}
    engines = [
        start_engine(),
        start_engine(block_size=32),
        start_engine(dtype="bfloat16"),
        start_engine(write_tiny_model(tmp_path / "other weights", seed=1)),
        start_engine(write_tiny_model(tmp_path / "other rope", rope_parameters=rope)),
        start_engine(write_tiny_model(tmp_path / "other eos", eos_token_id=7)),
    ]
    assert len({engine.info.fingerprint for engine in engines}) == len(engines)


def test_another_vocabulary_is_another_model(start_engine: EngineBuilder, tiny_model: Callable, tmp_path: Path) -> None:
    copy = shutil.copytree(tiny_model("llama"), tmp_path / "copy")
    vocabulary = copy / "tokenizer.json"
    vocabulary.write_text(vocabulary.read_text() + " ")
    assert start_engine().info.fingerprint != start_engine(copy).info.fingerprint
