"""What all tests share: the real default model, converted once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from tests.steady_loop import SteadyLoop

ROOT = Path(__file__).resolve().parents[1]

# The same examples each time, and no deadline per example: the machine may be busy.
settings.register_profile("tandem", deadline=None, derandomize=True)
settings.load_profile("tandem")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"steady": SteadyLoop}


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command that a test runs in this process sets up logging for all of it, and other tests come after."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def default_model_dir() -> Path:
    """SmolLM2-135M-Instruct as `make test` has prepared it."""
    path = Path(os.environ.get("TANDEM_TEST_MODEL", ROOT / "build" / "models" / "SmolLM2-135M-Instruct"))
    if not (path / "config.json").exists():
        pytest.fail(f"{path} holds no model: run `make test`, or python -m inference.engine.default_model --out {path}")
    return path
