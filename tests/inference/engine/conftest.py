"""Tiny model directories and engines that are stopped after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role
from inference.engine.native import NativeEngine
from inference.testing.tiny_model import write_tiny_model
from tests.inference.engine.prompts import ANSWER, PROMPTS

EngineBuilder = Callable[..., NativeEngine]


@pytest.fixture(scope="session", autouse=True)
def _one_torch_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of the tiny model of a family, written once per test run."""
    written: dict[str, Path] = {}

    def directory(family: str = "llama") -> Path:
        if family not in written:
            written[family] = write_tiny_model(tmp_path_factory.mktemp(family), family=family)
        return written[family]

    return directory


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


@pytest.fixture
def start_engine(tiny_model: Callable[[str], Path]) -> Iterator[EngineBuilder]:
    """Builds a running engine: `start_engine(model_path=..., role=..., <EngineSettings fields>)`."""
    engines: list[NativeEngine] = []

    def build(
        model_path: Path | str | None = None, *, role: Role = Role.UNIFIED, device: str = "cpu", **settings: object
    ) -> NativeEngine:
        fields = {"threads": 1, "kv_tokens": 2048} | settings
        engine = NativeEngine(
            str(model_path or tiny_model("llama")), "tiny", role, EngineSettings(**fields), device=device
        )
        engine.start()
        engines.append(engine)
        return engine

    yield build
    for engine in engines:
        engine.stop()
