"""What all tests share: the real default model, converted once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def default_model_dir() -> Path:
    """SmolLM2-135M-Instruct as `make test` has prepared it."""
    path = Path(os.environ.get("TANDEM_TEST_MODEL", ROOT / "build" / "models" / "SmolLM2-135M-Instruct"))
    if not (path / "config.json").exists():
        pytest.fail(f"{path} holds no model: run `make test`, or python -m inference.engine.default_model --out {path}")
    return path
