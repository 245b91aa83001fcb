"""Tests that need a CUDA device: marked `gpu`, and skipped where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.inference.engine.conftest import start_engine, tiny_model

__all__ = ["start_engine", "tiny_model"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))
