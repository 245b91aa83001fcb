"""What a worker takes is what the fit check says, and nothing is kept that was only needed to load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from inference.contracts.states import DeviceKind
from inference.engine import packed_linear
from inference.engine.loader import load
from inference.engine.packed_linear import PackedLinear
from inference.planning.model.fit import Load, need
from inference.planning.model.folder import read_shape
from inference.testing.tiny_model import write_tiny_model

KV_TOKENS = 4096

#: A worker that has read a long prompt: bytes of memory that are its own, and its layers.
WORKER = """
import json, sys
import psutil
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role
from inference.engine.native import NativeEngine
from inference.worker import main
from tests.inference.engine.recorder import answer, greedy

engine = NativeEngine(sys.argv[1], "m", Role.UNIFIED, EngineSettings(dtype="float32", threads=1, kv_tokens=4096))
engine.start()
answer(engine, list(range(2000)), greedy(8))
json.dump({"resident": psutil.Process().memory_info().rss}, sys.stdout)
engine.stop()
"""


@pytest.mark.model
def test_a_worker_takes_what_the_fit_check_says(default_model_dir: Path) -> None:
    shape = read_shape(default_model_dir)
    assert shape is not None
    said = need(shape, Load(kv_tokens=KV_TOKENS, dtype="float32"), DeviceKind.CPU)
    assert said is not None

    run = subprocess.run(
        [sys.executable, "-c", WORKER, str(default_model_dir)], capture_output=True, text=True, check=True, timeout=300
    )
    taken = json.loads(run.stdout.splitlines()[-1])["resident"]

    assert 0.75 * said.total < taken < 1.05 * said.total


def mapped(directory: Path) -> list[str]:
    """Weights in `directory` that are mapped into this process."""
    found = [line.split(maxsplit=5)[-1].strip() for line in Path("/proc/self/maps").read_text().splitlines()]
    return [path for path in found if path.startswith(str(directory)) and path.endswith(".safetensors")]


def test_nothing_of_the_file_stays_mapped_beside_packed_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linear, "_seconds", lambda layer, _: 0.5 if isinstance(layer, PackedLinear) else 1.0)
    write_tiny_model(tmp_path, hidden_size=256, intermediate_size=512, tie_word_embeddings=True)

    loaded = load(str(tmp_path), "float32", torch.device("cpu"))
    if loaded.packing.gain is None:
        pytest.skip(f"no packed layers here: {loaded.packing.reason}")

    assert loaded.packing.layers > 0
    assert mapped(tmp_path) == []
    embedding = loaded.model.get_input_embeddings().weight
    assert embedding.untyped_storage().nbytes() == embedding.nbytes
