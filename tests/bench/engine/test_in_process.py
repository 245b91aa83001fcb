from __future__ import annotations

import os
import time

import pytest

from tests.bench.engine.in_process import apart


def test_work_is_done_in_another_process() -> None:
    assert apart(os.getpid, within_s=30) != os.getpid()


def test_work_that_takes_too_long_is_ended() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="sleep took longer than"):
        apart(time.sleep, 60, within_s=0.01)
    assert time.monotonic() - began < 60
