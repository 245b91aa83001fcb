"""A short storm in CI; `make chaos` makes a long one. Comes before the module that needs a stack of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.__main__ import storm

pytestmark = pytest.mark.chaos


def test_a_short_storm_leaves_everything_as_wanted(tmp_path: Path) -> None:
    seed = int(os.environ.get("TANDEM_CHAOS_SEED", "1"))
    assert storm(seed=seed, seconds=25, database="sqlite", keep=tmp_path / "kept") == []
