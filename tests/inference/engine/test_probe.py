from __future__ import annotations

import pytest
import torch

from inference.engine import probe
from inference.engine.probe import choose_dtype, choose_threads


@pytest.fixture(autouse=True)
def _threads_of_the_test_stay_as_they_were():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("gain", "threads"), [(1.9, 4), (1.2, 4), (1.1, 1), (0.3, 1)])
def test_threads_are_used_where_they_gain(monkeypatch: pytest.MonkeyPatch, gain: float, threads: int) -> None:
    monkeypatch.setattr(probe, "_seconds", lambda *_: 1.0 if torch.get_num_threads() == 1 else 1.0 / gain)
    chosen = choose_threads(4)
    assert chosen.threads == threads == torch.get_num_threads()
    assert f"{gain:.1f} times as fast" in chosen.reason


def test_one_core_needs_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(probe, "_seconds")
    assert choose_threads(1).threads == 1


@pytest.mark.parametrize(("gain", "dtype"), [(4.0, torch.bfloat16), (1.8, torch.float32), (0.5, torch.float32)])
def test_bfloat16_is_used_where_it_gains_much(monkeypatch: pytest.MonkeyPatch, gain: float, dtype: torch.dtype) -> None:
    monkeypatch.setattr(probe, "_seconds", lambda _, rows, dtype, clock: 1.0 if dtype is torch.float32 else 1.0 / gain)
    chosen = choose_dtype(torch.bfloat16)
    assert chosen.dtype is dtype
    assert f"{gain:.1f} times as fast" in chosen.reason


@pytest.mark.parametrize("stored", [torch.float32, torch.float16, None])
def test_a_model_that_was_not_stored_in_bfloat16_is_never_rounded_to_it(stored: torch.dtype | None) -> None:
    assert choose_dtype(stored).dtype is torch.float32


def test_the_real_trial_measures_something() -> None:
    torch.set_num_threads(1)
    assert probe._seconds(probe._layers(torch.float32), 1, torch.float32) > 0
